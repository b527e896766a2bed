"""`hearth lock` records a model's manifest on first use and never fetches it again."""

from dataclasses import replace
from pathlib import Path

import pytest

from hearth.catalogue import derive, load
from hearth.cli import lock

INVENTORY = Path(__file__).parents[3] / "inventory"


def test_a_manifest_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def answer(model_id: str, mirrors: object) -> str:
        fetched.append(model_id)
        return "sha256:" + "ab" * 32

    monkeypatch.setattr(lock, "manifest_digest", answer)
    house = derive(load(INVENTORY))
    known = house.models["llama3.1"]
    house = replace(house, models={"llama3.1": known, "free": house.models["free"]})
    (row,) = lock.lock_models(tmp_path, house)
    assert (row.name, row.sha256, row.state) == ("llama3.1", "ab" * 32, "unverified")
    assert "llama3.1" in (tmp_path / "local/sources.lock.yml").read_text()
    locked = replace(house, models={"llama3.1": replace(known, digest="sha256:" + "cd" * 32)})
    (row,) = lock.lock_models(tmp_path, locked)
    assert (row.sha256, row.state) == ("cd" * 32, "recorded")
    assert fetched == ["llama3.1"]


def test_only_what_this_house_fetches_is_locked() -> None:
    wanted = lock.fetched(derive(load(INVENTORY)))
    assert {"ollama", "kokoro_voices", "whisper_base_model"} <= wanted
    # A model that no alias uses, and a service that is off.
    assert not {"whisper_large_v3_model", "kokoro_fastapi"} & wanted

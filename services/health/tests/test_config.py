"""The page understands what its role writes for the reference house."""

import json
from pathlib import Path
from typing import Any

import pytest

from hearth_health.config import HealthError, load_config

RENDERED = Path(__file__).parents[3] / "incus/health.json"


def test_the_reference_house_has_its_tiles_and_every_finding() -> None:
    config = load_config(RENDERED)
    assert config.site == "home.lan"
    tiles = {tile.fqdn: (tile.title, tile.kind) for tile in config.tiles}
    assert tiles["chat.lan"] == ("Chat", "chat")
    assert tiles["kokoro-web.lan"] == ("Speech", "speech")
    assert tiles["whisper.lan"] == ("Dictation", "transcription")
    assert tiles["trust.lan"] == ("New device", "trust")
    # Not the page itself, and no site for programs only.
    assert not {"home.lan", "llm.lan", "kokoro-stream.lan"} & set(tiles)
    for name, kind in config.findings.items():
        assert kind["title"], name
        assert kind["means"], name
        assert kind["todo"], name
    assert "HEARTH-SERVICE-HUNG" in config.findings


def test_the_reference_house_has_a_canary_for_what_its_page_may_reach() -> None:
    canary = load_config(RENDERED).canary
    assert canary
    # Speech first: its sound is what is transcribed.
    assert [(one.kind, one.name) for one in canary.targets] == [
        ("speech", "kokoro"),
        ("transcription", "whisper"),
        ("models", "ollama"),
    ]
    assert canary.targets[2].embeds == ["nomic-embed-text"]
    assert (canary.every_s, canary.budget_s, canary.wakes_card) == (300, 36, False)


@pytest.mark.parametrize("wrong", [{"every_s": 0}, {"budget_s": 0}, {"targets": [{"name": "x"}]}])
def test_settings_that_cannot_work_are_one_line(tmp_path: Path, wrong: dict[str, Any]) -> None:
    content = json.loads(RENDERED.read_text())
    content["canary"] |= wrong
    file = tmp_path / "health.json"
    file.write_text(json.dumps(content))
    with pytest.raises(HealthError, match=r"health\.json: .* run `hearth up`"):
        load_config(file)

"""One role for the processor and the card: which models, which draft, who may come in."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError

from tests.role_data import ROLES, read, reference_house, run_units
from tests.unit.roles.test_kokoro import after, started

NAMES = ("small", "tiny.en", "tiny", "base.en")
WANTED = ("small", "base.en")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The reference house; two models are wanted, and a third could be the draft."""
    found = reference_house(tmp_path_factory.mktemp("inventory"))
    found["services"]["whisper"]["weights"] = [
        {"name": name, "program": program(name), "files": {}, "wanted": name in WANTED}
        for name in NAMES
    ]
    return found


def program(name: str) -> str:
    return "whisper_" + name.replace(".", "_")


def folder(name: str) -> str:
    return f"/opt/hearth/{program(name)}/current/{name}"


def test_the_wanted_models_in_their_order_and_the_draft(house: dict[str, Any]) -> None:
    unit = run_units(house, "none")["whisper"]
    words = started(unit)
    assert words[:4] == ["/usr/bin/python3", "-P", "-m", "hearth_whisper"]
    assert after(words, "--model") == [folder("small"), folder("base.en")]
    assert after(words, "--draft") == [folder("tiny")]
    assert after(words, "--device") == ["cpu"]
    assert after(words, "--port") == ["8000"]
    assert "--unload" not in words
    # oneDNN could compile nothing, and the first sound would be an error.
    assert "MemoryDenyWriteExecute=no" in unit
    assert "PrivateDevices=yes" in unit
    # /tmp is memory; an upload of hours is none of its business.
    assert "Environment=TMPDIR=/var/lib/whisper" in unit


def test_an_english_draft_is_used_only_with_english_models(house: dict[str, Any]) -> None:
    english = copy.deepcopy(house)
    for weights in english["services"]["whisper"]["weights"]:
        weights["wanted"] = weights["name"] == "base.en"
    assert after(started(run_units(english, "none")["whisper"]), "--draft") == [folder("tiny.en")]


@pytest.mark.parametrize(("given", "drafts"), [("", []), ("base.en", ["base.en"])])
def test_another_draft_or_none(house: dict[str, Any], given: str, drafts: list[str]) -> None:
    words = started(run_units(house, "none", {"whisper_draft": given})["whisper"])
    assert after(words, "--draft") == [folder(name) for name in drafts]


def test_a_draft_that_is_not_a_model_is_rejected(house: dict[str, Any]) -> None:
    text = 'whisper_draft names no model of whisper: tinny; it is auto, "" or one of '
    with pytest.raises(AnsibleError, match=re.escape(f"{text}base.en, small, tiny, tiny.en")):
        run_units(house, "none", {"whisper_draft": "tinny"})


def test_the_draft_is_checked_before_any_download() -> None:
    # The same data that name the draft name the files: the first task reads them.
    first = read(ROLES / "whisper/tasks/install.yml")[0]
    assert first["loop"] == "{{ __whisper_start.files | dict2items }}"


def test_a_model_is_unloaded_when_idle(house: dict[str, Any]) -> None:
    words = started(run_units(house, "none", {"whisper_unload_s": 900})["whisper"])
    assert after(words, "--unload") == ["900"]


def test_satellites_connect_to_its_own_address(house: dict[str, Any]) -> None:
    words = started(run_units(house, "none")["whisper"])
    assert after(words, "--wyoming-host") == ["10.140.30.30"]
    assert after(words, "--wyoming-port") == ["10300"]
    without = copy.deepcopy(house)
    without["services"]["whisper"]["publish_tcp"] = {}
    assert "--wyoming-port" not in started(run_units(without, "none")["whisper"])


def test_only_an_nvidia_gpu_is_used(house: dict[str, Any]) -> None:
    unit = run_units(house, "cuda")["whisper"]
    assert after(started(unit), "--device") == ["cuda"]
    assert "DeviceAllow=char-nvidia* rw" in unit
    assert "nvidia/cublas/lib" in unit
    assert after(started(run_units(house, "vulkan")["whisper"]), "--device") == ["cpu"]


def test_the_satellites_port_is_closed_to_the_lan_by_default(tmp_path: Path) -> None:
    shipped = reference_house(tmp_path)
    assert shipped["services"]["whisper"]["publish_tcp"] == {"10300": []}

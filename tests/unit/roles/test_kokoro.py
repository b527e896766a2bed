"""One role, two records: the processor's server and the card's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.role_data import reference_house, run_units


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    house = reference_house(tmp_path_factory.mktemp("inventory"))
    return {
        **run_units(house, "none"),
        # Only a service with a card learns of it.
        "kokoro-gpu": run_units(house, "cuda")["kokoro-gpu"],
    }


def started(unit: str) -> list[str]:
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    return line.removeprefix("ExecStart=").split()


def after(words: list[str], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_a_cpu_chooses_among_three_models(units: dict[str, str]) -> None:
    words = started(units["kokoro"])
    assert words[:4] == ["/usr/bin/python3", "-P", "-m", "hearth_kokoro"]
    assert after(words, "--engine") == ["onnx"]
    # The exact one first: another is taken only when it is worth it.
    assert [Path(path).name for path in after(words, "--model")] == [
        "kokoro-v1.0.onnx",
        "kokoro-v1.0.fp16.onnx",
        "kokoro-v1.0.int8.onnx",
    ]
    assert after(words, "--port") == ["8880"]
    assert "MemoryDenyWriteExecute=yes" in units["kokoro"]
    assert "PrivateDevices=yes" in units["kokoro"]


def test_a_gpu_gets_pytorch_and_its_devices(units: dict[str, str]) -> None:
    words = started(units["kokoro-gpu"])
    assert after(words, "--engine") == ["torch"]
    assert after(words, "--model") == ["/opt/hearth/kokoro_weights/current/kokoro-v1_0.pth"]
    assert after(words, "--port") == ["8881"]
    assert "DeviceAllow=char-nvidia* rw" in units["kokoro-gpu"]
    assert "TERM=none" in units["kokoro-gpu"]
    assert "MemoryDenyWriteExecute=no" in units["kokoro-gpu"]
    assert "# MemoryDenyWriteExecute: " in units["kokoro-gpu"]
    assert "User=kokoro" in units["kokoro-gpu"]

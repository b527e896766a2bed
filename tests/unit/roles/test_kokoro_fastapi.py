"""Upstream's server: what runs follows from the record's sources and from its card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.role_data import reference_house, run_units


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    house = reference_house(tmp_path_factory.mktemp("inventory"))
    return {kind: run_units(house, kind)["kokoro-fastapi"] for kind in ("none", "cuda")}


def environment(unit: str) -> dict[str, str]:
    variables = [
        line.partition("=")[2] for line in unit.splitlines() if line.startswith("Environment=")
    ]
    return {name: value for name, _, value in (line.partition("=") for line in variables)}


def test_on_a_cpu_it_uses_no_gpu(units: dict[str, str]) -> None:
    variables = environment(units["none"])
    assert variables["USE_GPU"] == "false"
    # Its own files first; the weights are no place to import from.
    assert variables["PYTHONPATH"].split(":") == [
        "/opt/hearth/kokoro_fastapi/current",
        "/opt/hearth/kokoro_fastapi_python/current",
        "/opt/hearth/spacy_english/current",
    ]
    assert "PrivateDevices=yes" in units["none"]
    assert "--host 10.140.30.26 --port 8882" in units["none"]


def test_with_a_gpu_it_gets_its_devices(units: dict[str, str]) -> None:
    assert environment(units["cuda"])["USE_GPU"] == "true"
    assert "DeviceAllow=char-nvidia* rw" in units["cuda"]


def test_spoken_text_is_not_logged(units: dict[str, str]) -> None:
    # Upstream's own level is DEBUG, at which it writes each text down.
    assert environment(units["none"])["API_LOG_LEVEL"] == "ERROR"
    assert "--no-access-log" in units["none"]


def test_it_writes_only_to_its_own_folder(units: dict[str, str]) -> None:
    variables = environment(units["none"])
    writable = [line for line in units["none"].splitlines() if line.startswith("ReadWritePaths=")]
    assert writable == [f"ReadWritePaths={variables['HOME']}"]
    assert Path(variables["TEMP_FILE_DIR"]).is_relative_to(variables["HOME"])
    assert not Path(variables["MODEL_DIR"]).is_relative_to(variables["HOME"])


def test_no_terminal_is_looked_up(units: dict[str, str]) -> None:
    # Of one with an entry, ncurses reads it by setfsuid, for which the unit is killed.
    assert environment(units["none"])["TERM"] == "none"

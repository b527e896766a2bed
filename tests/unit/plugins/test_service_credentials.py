"""A secret lies in one file that root alone reads, and is in no answer."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.plugins.by_path import plugin

SECRETS = {"key": "hunter2", "password": "swordfish"}


class Answered(BaseException):
    """The module has said what it says."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    if os.getuid():
        pytest.skip("the files must belong to root, and this is somebody else")
    module = plugin("modules", "service_credentials")
    monkeypatch.setattr(module, "FOLDER", tmp_path / "credentials")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records")
    (tmp_path / "records").mkdir()
    (tmp_path / "records/app.json").write_text("{}")
    return module


def run(
    module: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    secrets: dict[str, str],
    check_mode: bool = False,
) -> dict[str, Any]:
    """Run the module's main; what it answers."""
    said: dict[str, Any] = {}

    class FakeAnsibleModule:
        def __init__(self, argument_spec: dict[str, Any], supports_check_mode: bool) -> None:
            assert argument_spec["credentials"]["no_log"] is True
            assert supports_check_mode
            self.params = {"name": "app", "credentials": secrets}
            self.check_mode = check_mode

        def exit_json(self, **answer: Any) -> None:
            said.update(answer)
            raise Answered

    monkeypatch.setattr(module, "AnsibleModule", FakeAnsibleModule)
    with pytest.raises(Answered):
        module.main()
    assert not any(value in json.dumps(said) for value in SECRETS.values())
    return said


def test_secrets_are_written_for_root_alone_and_once(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = run(module, monkeypatch, SECRETS)
    assert said == {"changed": True, "written": ["key", "password"], "removed": []}
    folder = tmp_path / "credentials/app"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name, value in SECRETS.items():
        assert (folder / name).read_text() == value
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o400
    assert run(module, monkeypatch, SECRETS)["changed"] is False


def test_another_secret_takes_the_record_so_that_a_killed_run_restarts_later(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(module, monkeypatch, SECRETS)
    record = tmp_path / "records/app.json"
    assert not record.exists()
    record.write_text("{}")
    run(module, monkeypatch, SECRETS)
    assert record.exists()
    run(module, monkeypatch, {**SECRETS, "key": "hunter3"})
    assert not record.exists()


@pytest.mark.parametrize("mode", [0o440, 0o644])
def test_a_secret_that_others_could_read_is_mended(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    run(module, monkeypatch, SECRETS)
    (tmp_path / "credentials/app/key").chmod(mode)
    assert run(module, monkeypatch, SECRETS)["written"] == ["key"]
    assert stat.S_IMODE((tmp_path / "credentials/app/key").stat().st_mode) == 0o400


def test_a_link_in_the_place_of_a_secret_is_replaced_and_its_target_left_alone(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("hunter2")
    target.chmod(0o400)
    folder = tmp_path / "credentials/app"
    folder.mkdir(parents=True)
    (folder / "key").symlink_to(target)
    run(module, monkeypatch, {"key": "hunter2"})
    assert not (folder / "key").is_symlink()
    assert target.read_text() == "hunter2"


def test_what_nobody_wants_any_more_goes(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(module, monkeypatch, SECRETS)
    said = run(module, monkeypatch, {"key": "hunter2"})
    assert said == {"changed": True, "written": [], "removed": ["password"]}
    assert [path.name for path in (tmp_path / "credentials/app").iterdir()] == ["key"]


def test_check_mode_writes_nothing(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(module, monkeypatch, SECRETS, check_mode=True)["written"] == ["key", "password"]
    assert not (tmp_path / "credentials").exists()
    assert (tmp_path / "records/app.json").exists()

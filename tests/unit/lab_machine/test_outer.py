"""What labs changed on the outer machine is undone, also by a later removal."""

import shutil
from pathlib import Path

import pytest

from tests.lab_machine import base, boot, disk, links, outer, package_cache, packages
from tests.lab_machine.model import write_json
from tests.lab_machine.packages import Installed


def test_packages_that_were_kept_are_purged_by_a_later_removal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    purged: list[Installed] = []
    monkeypatch.setattr(outer, "STATE", tmp_path)
    monkeypatch.setattr(outer, "_RECORD", tmp_path / ".outer/changes.json")
    monkeypatch.setattr(package_cache, "stop", lambda: None)
    monkeypatch.setattr(links, "drop_rules", lambda: None)
    monkeypatch.setattr(base, "forget_all", lambda: None)
    monkeypatch.setattr(boot, "forget_folders", lambda: None)
    monkeypatch.setattr(disk, "erase", shutil.rmtree)
    monkeypatch.setattr(packages, "purge", purged.append)
    write_json(outer._RECORD, {"packages": ["mmdebstrap"], "users": ["cacher"]})
    outer.undo(keep_packages=True, keep_cache=True)
    assert purged == []
    outer.undo(keep_packages=False, keep_cache=False)
    assert purged == [Installed(("mmdebstrap",), ("cacher",))]
    assert not tmp_path.exists()

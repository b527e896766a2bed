"""The probe of a unit's process reads versions from mapped files, and tries what must fail."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hearth.smoke import unit_probe

MARKER = "/tmp/hearth-no-such-marker"


def test_files_that_were_replaced_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = {"/usr/lib/libfine.so", "/usr/lib/libold.so (deleted)", "/var/data (deleted)"}
    monkeypatch.setattr(unit_probe, "files", lambda _pid: mapped)
    found = unit_probe.loaded({"packages": []}, 1)
    assert found == {"pid": 1, "stale": ["/usr/lib/libold.so (deleted)"], "packages": {}}
    assert unit_probe.loaded({"packages": []}, 0) == {"pid": 0, "stale": [], "packages": {}}


def test_the_version_of_a_package_comes_from_the_folder_that_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "open_webui-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: open-webui\nVersion: 1.2\n")
    monkeypatch.setattr(unit_probe, "PROGRAM", re.compile(rf"{tmp_path}/"))
    monkeypatch.setattr(unit_probe, "files", lambda _pid: {f"{tmp_path}/lib.so"})
    found = unit_probe.loaded({"packages": ["open-webui", "other"]}, 1)
    assert found["packages"] == {"open-webui": "1.2"}


def test_it_reads_its_own_process() -> None:
    assert unit_probe.files(os.getpid()) >= {os.readlink("/proc/self/exe")}
    assert unit_probe.kernel_status(os.getpid()).keys() == set(unit_probe.STATUS)


def test_the_inner_program_reports_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the machine's own folders: a test changes nothing there.
    monkeypatch.setattr(unit_probe, "READ_ONLY", (f"{tmp_path}/none",))
    monkeypatch.setattr(unit_probe, "TMP", str(tmp_path))
    own, secret = tmp_path / "own", tmp_path / "secret"
    own.write_text("x")
    asked = {"marker": MARKER, "own": [str(own)], "secrets": [str(secret)]}
    tried = unit_probe.attempts(asked)
    assert tried["own"] == {str(own): "done"}
    assert tried["secrets"] == {str(secret): "ENOENT"}
    assert tried["written"] == {f"{tmp_path}/none": "ENOENT", str(tmp_path): "done"}
    assert tried["marker_seen"] is False
    assert tried["user"] == os.getuid()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]

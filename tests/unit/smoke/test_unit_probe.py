"""The probe of a unit's process reads versions from mapped files, and tries what must fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hearth.smoke import unit_probe

MARKER = "/tmp/hearth-no-such-marker"


def test_files_that_were_replaced_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = {"/usr/lib/libfine.so", "/usr/lib/libold.so (deleted)", "/var/data (deleted)"}
    monkeypatch.setattr(unit_probe, "files", lambda _pid: mapped)
    found = unit_probe.loaded([], 1)
    assert found == {"pid": 1, "stale": ["/usr/lib/libold.so (deleted)"], "packages": {}}
    assert unit_probe.loaded([], 0) == {"pid": 0, "stale": [], "packages": {}}


def test_the_version_of_a_package_comes_from_the_folder_that_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "open_webui-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: open-webui\nVersion: 1.2\n")
    monkeypatch.setattr(unit_probe, "PROGRAM", re.compile(rf"{tmp_path}/"))
    monkeypatch.setattr(unit_probe, "files", lambda _pid: {f"{tmp_path}/lib.so"})
    found = unit_probe.loaded(["open-webui", "other"], os.getpid())
    assert found["packages"] == {"open-webui": "1.2"}


def test_it_reads_its_own_process() -> None:
    assert unit_probe.files(os.getpid()) >= {os.readlink("/proc/self/exe")}
    assert unit_probe.kernel_status(os.getpid()).keys() == set(unit_probe.STATUS)


def test_programs_are_listed_without_empty_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "litellm/current").mkdir(parents=True)
    (tmp_path / "gone").mkdir()
    monkeypatch.setattr(unit_probe, "PROGRAMS", str(tmp_path))
    assert unit_probe.programs() == ["litellm"]
    # As on the machine itself.
    monkeypatch.setattr(unit_probe, "PROGRAMS", f"{tmp_path}/none")
    assert unit_probe.programs() == []


def test_the_inner_program_reports_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the machine's own folders: a test changes nothing there.
    monkeypatch.setattr(unit_probe, "READ_ONLY", (f"{tmp_path}/none",))
    monkeypatch.setattr(unit_probe, "TMP", str(tmp_path))
    own, secret = tmp_path / "own", tmp_path / "secret"
    own.write_text("x")
    request = {"marker": MARKER, "own": [str(own)], "secrets": [str(secret)]}
    tried = unit_probe.attempts(request)
    assert tried["own"] == {str(own): "done"}
    assert tried["secrets"] == {str(secret): "ENOENT"}
    assert tried["written"] == {f"{tmp_path}/none": "ENOENT", str(tmp_path): "done"}
    assert tried["marker_seen"] is False
    assert tried["user"] == os.getuid()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


STUBS = {
    "systemctl": """case "$1 $*" in
        list-units*) echo "ollama-proxy.service loaded active running A proxy" ;;
        show*incus*) printf 'MainPID=0\\n' ;;
        show*) printf 'MainPID=%s\\nUser=ollama\\nActiveState=active\\n' "$PPID" ;;
        cat*) echo "[Service]" ;;
    esac""",
    "systemd-analyze": 'echo "Overall exposure level for $3: 1.3 OK"',
    "ss": 'echo "tcp LISTEN 0 128 10.0.0.1%eth0:80 0.0.0.0:*"; echo "tcp LISTEN 0 128 [::]:22 *:*"',
    "dpkg-query": 'echo "caddy 2.6 installed"; echo "gone 1 config-files"; exit 1',
    "nsenter": "echo no such namespace >&2; exit 1",
}


def test_one_program_inspects_everything_and_survives_a_probe_that_fails(tmp_path: Path) -> None:
    for name, script in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    program = Path(unit_probe.__file__).read_text()
    request: dict[str, Any] = {
        "units": ["ollama.service"],
        "others": ["incus.service"],
        "packages": [],
    }
    request |= {"debian": ["caddy", "gone"], "secrets": [], "program": program}
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        input=json.dumps(request),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    found = json.loads(done.stdout)
    assert found["debian"] == {"caddy": "2.6"}
    assert found["listening"] == [["tcp", "10.0.0.1", 80], ["tcp", "::", 22]]
    own, proxy, other = found["units"].values()
    assert list(found["units"]) == ["ollama.service", "ollama-proxy.service", "incus.service"]
    assert own["properties"]["User"] == "ollama"
    assert own["pid"] > 0
    assert own["sandbox"] == "nsenter: no such namespace (exit 1)"
    assert "exposure level for ollama.service" not in proxy["security"]
    assert (other["pid"], other["stale"], other["sandbox"]) == (0, [], None)


def test_helpers_are_units_with_the_name_before_them_that_are_not_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = (
        "ollama-proxy.service loaded active running A sidecar\n"
        "ollama-old.service masked inactive dead ollama-old.service\n"
    )
    monkeypatch.setattr(unit_probe, "_output", lambda argv: listed)
    assert unit_probe.with_helpers(["ollama.service"]) == ["ollama.service", "ollama-proxy.service"]

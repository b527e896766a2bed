"""No machine is changed before the preflight shows that a house can be built on it."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from hearth.cli import preflight

ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A booted Debian 12 whose user is not root; gives the folder of the inventory."""
    monkeypatch.setattr(preflight, "_BOOTED", tmp_path)
    monkeypatch.setattr(preflight, "_INVENTORY", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    debian = {"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian 12"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: debian)
    (tmp_path / "local").mkdir()
    (tmp_path / "machines.yml").write_text("machines: {house: {reach: local}}  # or ssh://me@it\n")
    return tmp_path


def test_another_debian_is_one_line(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main([]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: this machine runs Debian 12; a house needs Debian 13: use such")
    assert error.count("\n") == 1


def test_without_root_there_is_an_error(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    debian = {"ID": "debian", "VERSION_ID": "13"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: debian)
    assert preflight.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "error: only root can build a house: put `sudo` before the command\n"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert preflight.main([]) == 0


@pytest.mark.parametrize("word", ["--lab", "--help", "-h"])
def test_what_builds_nothing_here_may_run_anywhere(machine: Path, word: str) -> None:
    assert preflight.main([word]) == 0


@pytest.mark.parametrize(
    "text",
    ["machines:\n  house:\n    reach: ssh://me@it\n", "{machines: {a: {reach: 'ssh://it'}}}"],
)
def test_a_remote_house_may_be_built_from_any_machine(machine: Path, text: str) -> None:
    (machine / "local/machines.yml").write_text(text)
    assert preflight.main([]) == 0


def test_without_systemd_a_lab_is_made(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_BOOTED", machine / "not/there")
    assert preflight.main([]) == 0


def test_the_preflight_needs_only_the_standard_library() -> None:
    # -S: without any installed packages.
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", "import sys; sys.path.insert(0, '.')\n"
         "from hearth.cli import preflight\npreflight.main(['--lab'])\n"
         "assert not [name for name in sys.modules if 'site-packages' in str(sys.modules[name])]"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "hearth.cli.preflight" in (ROOT / "scripts/up").read_text()

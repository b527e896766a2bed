"""Packages installed before the first run are recorded as Hearth's, and older ones are not."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hearth.remote import controller, program
from hearth.remove import before
from tests.role_data import ROOT
from tests.unit.plugins.by_path import plugin

INSTALL = """#!/bin/bash
echo apt-get "$*" >>$0.asked
case $* in *install*git*) ln -s {git} $(dirname $0)/git;; esac
"""
TOOLS = ("bash", "cat", "date", "dirname", "ln", "mkdir", "mv", "rm", "sed")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without git, whose apt installs it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        (programs / name).symlink_to(str(shutil.which(name)))
    install = INSTALL.format(git=shutil.which("git"))
    scripts = {"apt-get": install, "id": "#!/bin/bash\necho 0\n", "dpkg": "#!/bin/bash\n"}
    scripts["dpkg-query"] = "#!/bin/bash\nprintf 'installed dpkg\\nconfig-files old\\n'\n"
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path


def take_commit(bare: Path, noted: str) -> None:
    """Take the commit in the bundle `b` as the program does."""
    bundle = base64.b64encode((bare / "b").read_bytes()).decode()
    notes = controller.NOTES | {"ansible": str(bare / ".ansible")}
    options = {"root": f"{bare}/hearth", "lock": f"{bare}/lock", "within_s": 5, "noted": noted}
    options |= {"bundle": bundle, "settings": {}, "commit": "FETCH_HEAD", "notes": notes}
    options |= {"digests": "none", "folder": "pipelines"}
    subprocess.run(
        [sys.executable, program.__file__, "take"],
        input=json.dumps(options).encode(),
        check=True,
        timeout=60,
    )


def test_git_that_was_installed_for_the_project_is_removed_with_it(bare: Path) -> None:
    checkout = bare / "checkout"
    checkout.mkdir()
    git = [str((bare / "bin/apt-get").read_text().partition("ln -s ")[2].split()[0])]
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "First"]):
        subprocess.run([*git, "-C", str(checkout), *words], check=True, timeout=60)
    words = ["bundle", "create", "-q", str(bare / "b"), "HEAD"]
    subprocess.run([*git, "-C", str(checkout), *words], check=True, timeout=60)
    noted = f"{bare}/hearth.packages-before"
    for _ in range(2):
        line = controller._INSTALL.replace("NOTED", noted)
        subprocess.run(["bash", "-c", line], check=True, timeout=60)
        take_commit(bare, noted)
    project = bare / "hearth"
    assert (project / before.EARLIER).read_text().split() == ["dpkg"]
    assert (project / before.NO_ANSIBLE).exists()
    assert plugin("action", "house_before").brought(project) == ["git"]
    assert sorted(path.name for path in bare.glob("hearth.*")) == []


def test_packages_of_the_environment_are_removed_except_python_itself(bare: Path) -> None:
    (bare / "project").mkdir()
    script = f". {ROOT}/scripts/environment; packages python3 python3-venv ca-certificates"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=bare / "project",
        env={**os.environ, "HOME": str(bare)},
        check=True,
        timeout=60,
    )
    found = plugin("action", "house_before").brought(bare / "project")
    assert found == ["ca-certificates", "python3-venv"]
    assert (bare / "project" / before.EARLIER).read_text().split() == ["dpkg"]


def test_a_machine_that_had_them_all_loses_none(tmp_path: Path) -> None:
    assert plugin("action", "house_before").brought(tmp_path) == []

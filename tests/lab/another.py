"""A second lab machine, bare at first, and a controller that reaches it by ssh and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from hearth.project import Project
from tests import lab_machine as lab
from tests.lab.house import ROOT, recap
from tests.lab.listing import take
from tests.lab_machine import mock_upstreams

NAME = "test-other"
RUN_S = 1500
# What ssh would read in the home of the account; no test may write there.
_SSH = """#!/bin/sh
exec /usr/bin/ssh -F {folder}/config "$@"
"""
_CONFIG = """IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking accept-new
BatchMode yes
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a run from outside came to."""

    returncode: int
    text: str

    @property
    def changed(self) -> list[int]:
        """How many tasks changed something: each host's count there, and at last the one here."""
        return [count for _, count in recap(self.text)]


@dataclass(frozen=True, slots=True)
class Other:
    """The machine, and the folder of its controller: a checkout, a key and nothing else."""

    folder: Path
    # What the machine was before anybody touched it.
    bare: Mapping[str, set[str]]
    name: str = NAME

    @property
    def project(self) -> Path:
        """The controller's checkout, whose settings say where the house lives."""
        return self.folder / "project"

    def outside(self, *words: str) -> Said:
        """Run ansible-playbook from here, as somebody on a laptop would."""
        return self._run(str(Path(sys.executable).with_name("ansible-playbook")), *words)

    def hearth(self, *words: str) -> Said:
        """Run `hearth` from here; it works there."""
        return self._run(sys.executable, "-m", "hearth.cli", *words)

    def shell(self, script: str, timeout: float = RUN_S) -> str:
        """Run a script in the machine, which must succeed, and return what it said."""
        done = lab.run(NAME, ["/bin/bash", "-euo", "pipefail", "-c", script], timeout=timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Return what the controller's programs see: its own ssh before the machine's."""
        path = f"{self.folder}/ssh:{os.environ['PATH']}"
        return os.environ | {
            "PATH": path,
            "HEARTH_PROJECT": str(self.project),
            "ANSIBLE_NOCOLOR": "1",
        }

    def _run(self, *argv: str) -> Said:
        # Its lines go to the terminal as they come, and one may read them again in the file.
        log = self.folder / "said.log"
        with log.open("w") as output:
            done = subprocess.run(
                argv,
                cwd=self.project,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=RUN_S,
            )
        return Said(done.returncode, log.read_text(errors="replace"))


def make(folder: Path) -> Other:
    """Make the bare machine, its mock upstreams, and a controller that it lets in."""
    remove()
    machine = lab.create(NAME)
    bare = take(NAME)
    mock_upstreams.serve(Project(ROOT), machine)
    _let_in(folder / "ssh")
    project = folder / "project"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True, timeout=120)
    settings = project / "inventory/local"
    settings.mkdir()
    for path in (ROOT / "tests/lab/inventory").glob("*.yml"):
        shutil.copy(path, settings)
    reach = {"machines": {"house": {"reach": f"ssh://root@{machine.address}"}}}
    (settings / "machines.yml").write_text(yaml.safe_dump(reach))
    return Other(folder, bare)


def _let_in(folder: Path) -> None:
    """Make a key that the machine takes, and an ssh that uses it."""
    folder.mkdir()
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
    subprocess.run(words, check=True, timeout=60)
    (folder / "config").write_text(_CONFIG.format(folder=folder))
    program = folder / "ssh"
    program.write_text(_SSH.format(folder=folder))
    program.chmod(0o755)
    put = "umask 077; mkdir -p /root/.ssh; cat > /root/.ssh/authorized_keys"
    key = (folder / "key.pub").read_text()
    lab.run(NAME, ["/bin/sh", "-c", put], stdin=key, check=True)


def remove() -> None:
    """Remove the machine, whole or half; the package caches stay."""
    if NAME in {machine.name for machine in lab.load_all()}:
        lab.destroy(NAME, keep_packages=True, keep_cache=True)

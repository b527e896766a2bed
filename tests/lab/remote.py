"""A controller on another machine than the house's; it reaches the house by ssh alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from hearth.remote.controller import prepared, send, target
from tests import lab_machine as lab
from tests.lab.house import CLONE, NAME, ROOT, recap

RUN_S = 1500
# The account's home folder stays as it is: this ssh reads its own files.
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
class Output:
    """How a command on the controller ended, and what it printed."""

    returncode: int
    text: str

    @property
    def changed(self) -> list[int]:
        """How many tasks changed something: the remote hosts' counts, then the controller's."""
        return [count for _, count in recap(self.text)]


@dataclass(frozen=True, slots=True)
class Controller:
    """The folder of a controller: a checkout, a key and nothing else."""

    folder: Path

    @property
    def project(self) -> Path:
        """Its checkout, whose settings name the house's machine."""
        return self.folder / "project"

    def ansible(self, *words: str) -> Output:
        """Run ansible-playbook, as a person on a laptop would."""
        return self._run(str(Path(sys.executable).with_name("ansible-playbook")), *words)

    def hearth(self, *words: str) -> Output:
        """Run `hearth`, which works on the house's machine."""
        return self._run(sys.executable, "-m", "hearth.cli", *words)

    def send(self) -> None:
        """Bring the project to the house's machine, and install what its programs need there."""
        path = os.environ["PATH"]
        os.environ["PATH"] = self.environment()["PATH"]
        try:
            send(self.project, target(f"ssh://root@{lab.address(NAME)}"), print)
        finally:
            os.environ["PATH"] = path
        self.shell(f"cd {CLONE}; {prepared(['true'])}")

    def shell(self, script: str, timeout: float = RUN_S) -> str:
        """Run a script in the house's machine, which must succeed, and return its output."""
        done = lab.run(NAME, ["/bin/bash", "-euo", "pipefail", "-c", script], timeout=timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Return the environment of its programs: its own ssh comes before the machine's."""
        path = f"{self.folder}/ssh:{os.environ['PATH']}"
        return os.environ | {
            "PATH": path,
            "HEARTH_PROJECT": str(self.project),
            "ANSIBLE_NOCOLOR": "1",
        }

    def _run(self, *argv: str) -> Output:
        log = self.folder / "output.log"
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
        return Output(done.returncode, log.read_text(errors="replace"))


def make(folder: Path) -> Controller:
    """Make a controller whose key the house's machine accepts."""
    _let_in(folder / "ssh")
    project = folder / "project"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True, timeout=120)
    settings = project / "inventory/local"
    settings.mkdir()
    for path in (ROOT / "tests/lab/inventory").glob("*.yml"):
        shutil.copy(path, settings)
    reach = {"machines": {"house": {"reach": f"ssh://root@{lab.address(NAME)}"}}}
    (settings / "machines.yml").write_text(yaml.safe_dump(reach))
    # Settings from another computer are refused; here the lab's own were copied in.
    lab.run(NAME, ["rm", "-rf", f"{CLONE}/inventory/local"], check=True)
    return Controller(folder)


def _let_in(folder: Path) -> None:
    """Make a key that the machine accepts, and an ssh that uses it."""
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

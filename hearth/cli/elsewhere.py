"""Build the house in a lab machine, the way a user would on a machine of their own."""

import subprocess
import sys
from pathlib import Path

from hearth.cli.say import err, show
from hearth.paths import RECEIPT_FOLDER, ROOT_CERTIFICATE
from hearth.project import Project
from tests import lab_machine as lab
from tests.lab_machine import mock_upstreams, steps

CLONE = "/root/hearth"
_BUNDLE = "/root/hearth.bundle"
_GIT_S = 120
_APT_S = 600
_UP_S = 3600


class ElsewhereError(Exception):
    """One line for a person: what of the way into the lab failed."""


def build(project: Project, name: str, words: tuple[str, ...] = ()) -> int:
    """Make the lab machine where it is missing, run `scripts/up` inside, and say how to reach it.

    `words` are passed on to it, such as --check. Returns the exit code of the `scripts/up` inside.
    """
    steps.listen(_say)
    machine = _machine(name)
    mock_upstreams.serve(project, machine)
    clone(project, name)
    argv = [f"{CLONE}/scripts/up", *words]
    # On a terminal it shows its progress as it would there; otherwise line by line.
    if sys.stdout.isatty():
        code = lab.interactive(name, argv)
    else:
        sys.stdout.flush()
        code = lab.run(name, argv, timeout=_UP_S, stream_to=sys.stdout.buffer).returncode
    if code == 0 and not words:
        _bring_out(project, machine)
    return code


def _say(text: str, seconds: float | None) -> None:
    took = "        " if seconds is None else f"{seconds:6.1f} s"
    err.print(f"[dim]{took}[/dim]  {text}")


def _machine(name: str) -> lab.Machine:
    if name in {machine.name for machine in lab.load_all()}:
        return lab.start(name)
    return lab.create(name)


def _git(project: Project, *words: str) -> str:
    argv = ["git", "-C", str(project.root), *words]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv, capture_output=True, text=True, check=True, timeout=_GIT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise ElsewhereError(
            f"{project.root}: git {words[0]}: {said.strip()}: the lab gets a clone of your last "
            "commit, so the project must be a git checkout with one"
        ) from error
    return done.stdout


def clone(project: Project, name: str) -> None:
    """Bring the last commit into the machine, with the lab's own overrides beside it."""
    if _git(project, "status", "--porcelain", "--untracked-files=no"):
        err.print("[yellow]note:[/yellow] what you have not committed is left out")
    with steps.step(f"Clone the project into {name}"):
        bundle = project.root / ".hearth" / "lab.bundle"
        bundle.parent.mkdir(exist_ok=True)
        _git(project, "bundle", "create", "--quiet", str(bundle), "HEAD")
        lab.copy_in(name, bundle, _BUNDLE)
        bundle.unlink()
        # The one thing that a user must have before the first command.
        script = (
            "set -e; command -v git >/dev/null || { apt-get -qq update; "
            "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends git; }\n"
            f"[ -d {CLONE} ] || git clone --quiet {_BUNDLE} {CLONE}\n"
            f"cd {CLONE}; git fetch --quiet {_BUNDLE} HEAD\n"
            "git checkout --quiet --force --detach FETCH_HEAD\n"
            # The lab's own overrides are of the same commit as the code that reads them.
            "mkdir -p inventory/local; cp tests/lab/inventory/*.yml inventory/local/\n"
        )
        lab.run(name, ["/bin/bash", "-c", script], timeout=_APT_S, check=True)


def _bring_out(project: Project, machine: lab.Machine) -> None:
    """Copy what a visitor needs, and say how to be one."""
    folder = project.root / ".hearth" / "lab" / machine.name
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "root.crt"
    lab.copy_out(machine.name, str(ROOT_CERTIFICATE), root)
    lab.copy_out(machine.name, str(RECEIPT_FOLDER), folder / "receipt")
    for line in reach(machine, root):
        show(line)


def reach(machine: lab.Machine, root: Path) -> list[str]:
    """Return the lines that say how to reach the house in the lab from this machine."""
    inside = f"scripts/hearth lab shell {machine.name} --"
    return [
        "",
        f"The house lives in the lab machine {machine.name}, {machine.address}. From here:",
        # The key goes through a pipe: an argument can be read by every user of the machine.
        f"  {inside} hearth secret show consumer_household --plain |",
        "    sed 's/^/Authorization: Bearer /' |",
        f"    curl --cacert {root} --resolve llm.lan:443:{machine.address} --header @- "
        "https://llm.lan/v1/models",
        f"  {inside} hearth status",
        f"  scripts/hearth lab destroy {machine.name}",
    ]

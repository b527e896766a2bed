"""Build a house in a lab machine, as a user does on a machine of their own."""

import subprocess
import sys
from pathlib import Path

from hearth.paths import RECEIPT_FOLDER, ROOT_CERTIFICATE
from hearth.project import Project
from tests import lab_machine as lab
from tests.lab_machine import mock_upstreams
from tests.lab_machine.command import LabError
from tests.lab_machine.steps import remark, step

CLONE = "/root/hearth"
_BUNDLE = "/root/hearth.bundle"
_GIT_S = 120
_APT_S = 600
_UP_S = 3600


def build(project: Project, name: str, options: tuple[str, ...] = ()) -> int:
    """Create the lab machine if it is missing, run `scripts/up` inside, and print how to reach it.

    `options` are passed to it, such as --check. Returns the exit code of the `scripts/up` inside.
    """
    machine = _machine(name)
    mock_upstreams.serve(project, machine)
    clone(project, name)
    argv = [f"{CLONE}/scripts/up", *options]
    # On a terminal it shows its usual progress display; otherwise it prints lines.
    if sys.stdout.isatty():
        code = lab.interactive(name, argv)
    else:
        sys.stdout.flush()
        code = lab.run(name, argv, timeout=_UP_S, stream_to=sys.stdout.buffer).returncode
    if code == 0 and not options:
        _copy_out(project, machine)
    return code


def _machine(name: str) -> lab.Machine:
    if name in {machine.name for machine in lab.load_all()}:
        return lab.start(name)
    return lab.create(name)


def _git(project: Project, *words: str) -> str:
    argv = ["git", "-C", str(project.root), *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_GIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", "") or str(error)
        raise LabError(
            f"{project.root}: git {words[0]}: {reason.strip()}: the lab clones your last commit, "
            "so the project must be a git checkout that has one"
        ) from error
    return done.stdout


def clone(project: Project, name: str) -> None:
    """Clone the last commit into the machine, with the lab's own overrides beside it."""
    if _git(project, "status", "--porcelain", "--untracked-files=no"):
        remark("note: uncommitted changes are left out")
    with step(f"Clone the project into {name}"):
        bundle = project.root / ".hearth" / "lab.bundle"
        bundle.parent.mkdir(exist_ok=True)
        _git(project, "bundle", "create", "--quiet", str(bundle), "HEAD")
        lab.copy_in(name, bundle, _BUNDLE)
        bundle.unlink()
        # The only package that a user must install before the first command.
        script = (
            "set -e; command -v git >/dev/null || { apt-get -qq update; "
            "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends git; }\n"
            f"[ -d {CLONE} ] || git clone --quiet {_BUNDLE} {CLONE}\n"
            f"cd {CLONE}; git fetch --quiet {_BUNDLE} HEAD\n"
            "git checkout --quiet --force --detach FETCH_HEAD\n"
            # The lab's overrides come from the same commit as the code that reads them.
            "mkdir -p inventory/local; cp tests/lab/inventory/*.yml inventory/local/\n"
        )
        lab.run(name, ["/bin/bash", "-c", script], timeout=_APT_S, check=True)


def _copy_out(project: Project, machine: lab.Machine) -> None:
    """Copy the root certificate and the receipt out, and print how to reach the house."""
    folder = project.root / ".hearth" / "lab" / machine.name
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "root.crt"
    lab.copy_out(machine.name, str(ROOT_CERTIFICATE), root)
    lab.copy_out(machine.name, str(RECEIPT_FOLDER), folder / "receipt")
    print("\n".join(_directions(machine, root)))


def _directions(machine: lab.Machine, root: Path) -> list[str]:
    """Return the lines that show how to reach the house in the lab from this machine."""
    inside = f"scripts/hearth lab shell {machine.name} --"
    return [
        "",
        f"The house runs in the lab machine {machine.name}, {machine.address}. From here:",
        # The key goes through a pipe: an argument can be read by every user of the machine.
        f"  {inside} hearth secret show consumer_household --plain |",
        "    sed 's/^/Authorization: Bearer /' |",
        f"    curl --cacert {root} --resolve llm.lan:443:{machine.address} --header @- "
        "https://llm.lan/v1/models",
        f"  {inside} hearth status",
        f"  scripts/hearth lab destroy {machine.name}",
    ]

"""A house on another machine: which commands go there, and how each is run.

The house then looks after itself: its secrets, its logs and its receipt stay on its own machine,
and a controller that is closed or lost takes nothing away.
"""

import functools
import shlex
import shutil
import subprocess
import sys

from hearth.cli.console import step
from hearth.cli.handover import CLONE, follow, prepared, send
from hearth.cli.ssh import Target, target
from hearth.project import Project, current

# What needs the house itself; `check`, `lock` and `lab` work on the project and stay here.
COMMANDS = frozenset(
    {
        *("up", "verify", "status", "logs", "shell", "models", "secret", "bench"),
        *("backup", "restore", "remove"),
    }
)


def run_there(command: str, words: list[str]) -> int | None:
    """Run `hearth WORDS` on the house's own machine, where that is another one.

    Returns its exit code, or None if the command is for this machine.
    """
    # These two edit the inventory here, from which the house gets it.
    here = "--new-key" in words or (command == "remove" and "--all" not in words)
    if command not in COMMANDS or here:
        return None
    project = current()
    reach = project.house().machine.reach
    return None if reach == "local" else run(project, reach, words)


def run(project: Project, reach: str, words: list[str]) -> int:
    """Run `hearth WORDS` on the remote machine, and return its exit code.

    `up` brings the project there first.
    """
    there = target(reach)
    if words[0] == "up":
        return converge(project, there, shlex.join([f"{CLONE}/scripts/up", *words[1:]]))
    command = shlex.join([f"{CLONE}/scripts/hearth", *words])
    argv = there.argv(command, terminal=sys.stdin.isatty())
    return subprocess.run(argv, check=False).returncode  # noqa: S603 - quoted word by word


def converge(project: Project, there: Target, command: str) -> int:
    """Bring the project and its settings there, and follow a shell line that brings them to life.

    Returns its exit code.
    """
    send(project.root, there, step)
    columns = shutil.get_terminal_size().columns
    return follow(there, command, functools.partial(print, flush=True), columns)


def remove_there(project: Project, reach: str, service: str, data: bool) -> int:
    """Have the house let a service go whose record here says so, and was asked about.

    Returns the exit code of the command there.
    """
    words = ["scripts/hearth", "remove", service, *(["--data"] if data else []), "--yes"]
    return converge(project, target(reach), prepared(words))

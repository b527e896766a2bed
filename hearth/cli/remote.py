"""Run a command of `hearth` on the remote machine that is the house.

The house then looks after itself: its secrets, its logs and its receipt stay on its own machine,
and losing the controller loses nothing.
"""

import functools
import shlex
import shutil
import subprocess
import sys

from hearth.cli.console import step
from hearth.project import Project, current
from hearth.remote.controller import CLONE, Target, follow, send, target

# What works on the project here; every other command needs the house itself.
_HERE = ("check", "lock", "lab", "kokoro-patch")


def run_there(command: str, words: list[str]) -> int | None:
    """Run `hearth WORDS` on the house's own machine, where that is another one.

    Returns its exit code, or None if the command is for this machine.
    """
    # These two edit the inventory here, from which the house gets it.
    here = "--new-key" in words or (command == "remove" and "--all" not in words)
    if command in _HERE or here:
        return None
    project = current()
    reach = project.house().machine.reach
    return None if reach == "local" else run(project, reach, words)


def run(project: Project, reach: str, words: list[str]) -> int:
    """Run `hearth WORDS` on the remote machine, and return its exit code.

    `up` sends the project there first.
    """
    there = target(reach)
    if words[0] == "up":
        return converge(project, there, shlex.join([f"{CLONE}/scripts/up", *words[1:]]))
    command = shlex.join([f"{CLONE}/scripts/hearth", *words])
    argv = there.argv(command, terminal=sys.stdin.isatty())
    return subprocess.run(argv, check=False).returncode  # noqa: S603 - quoted word by word


def converge(project: Project, there: Target, command: str) -> int:
    """Send the project and its settings there, run a shell line there, and return its exit code."""
    send(project.root, there, step)
    columns = shutil.get_terminal_size().columns
    return follow(there, command, functools.partial(print, flush=True), columns)

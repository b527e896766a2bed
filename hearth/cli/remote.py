"""Run a command of `hearth` on the remote machine that is the house.

The house then looks after itself: its secrets, its logs and its receipt stay on its own machine,
and losing the controller loses nothing.
"""

import functools
import shlex
import shutil
import subprocess
import sys

from hearth.cli.console import step, waiting
from hearth.project import Project
from hearth.remote.controller import CLONE, Target, follow, send, target


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
    with waiting(f"Send the project to {there.host}"):
        send(project.root, there, step)
    columns = shutil.get_terminal_size().columns
    return follow(there, command, functools.partial(print, flush=True), columns)

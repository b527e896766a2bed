"""A house on another machine: which commands go there, and how each is run.

The house then looks after itself: its secrets, its logs and its receipt stay on its own machine,
and a controller that is closed or lost takes nothing away.
"""

import functools
import shlex
import shutil
import subprocess
import sys

from hearth.cli.handover import CLONE, follow, prepared, send
from hearth.cli.say import err
from hearth.cli.ssh import Target, target
from hearth.project import Project

# What needs the house itself; `check`, `lock` and `lab` work on the project and stay here.
COMMANDS = frozenset(
    {
        *("up", "verify", "status", "logs", "shell", "models", "secret", "bench"),
        *("backup", "restore", "remove"),
    }
)


def run(project: Project, reach: str, words: list[str]) -> int:
    """Run `hearth WORDS` on the house's own machine; `up` brings the project there first.

    Returns the exit code of the command there.
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
    send(project.root, there, lambda text: err.print(f"[dim]        [/dim]  {text}"))
    columns = shutil.get_terminal_size().columns
    return follow(there, command, functools.partial(print, flush=True), columns)


def removal(project: Project, reach: str, service: str, data: bool) -> int:
    """Have the house let a service go whose record here says so, and was asked about.

    Returns the exit code of the command there.
    """
    words = ["scripts/hearth", "remove", service, *(["--data"] if data else []), "--yes"]
    return converge(project, target(reach), prepared(words))

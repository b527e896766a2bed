"""`hearth lab` and `hearth up --lab`: run the lab tool of the checkout."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from hearth.project import Project, ProjectError, current

app = typer.Typer()
# Every option is the tool's own, --help too.
_PASSED_ON = {
    **{"ignore_unknown_options": True, "allow_extra_args": True},
    **{"allow_interspersed_args": False, "help_option_names": []},
}
_TOOL = "tests.lab_machine"


@app.command("lab", context_settings=_PASSED_ON)
def lab_command(context: typer.Context) -> None:
    """Create throw-away Debian 13 machines with real Incus inside, for trying and testing.

    Example: hearth lab create try
    """
    run_tool(current(), context.args)


def run_tool(project: Project, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the lab tool, which is no part of an installed Hearth."""
    if not (project.root / _TOOL.replace(".", "/")).is_dir():
        raise ProjectError(
            f"{project.root}: no lab tool here: clone Hearth with git and run its scripts/hearth, "
            "or set HEARTH_PROJECT to such a clone"
        )
    sys.stdout.flush()
    os.chdir(project.root)
    os.execv(sys.executable, [sys.executable, "-m", _TOOL, *arguments])  # noqa: S606 - no shell

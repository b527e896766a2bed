"""The commands of `hearth`: each one's module is imported when the command is used."""

import importlib
import sys
from typing import Annotated, Any

import typer.core
import typer.main

import hearth

# Command: its module, and its function or a typer app there. The order is that of --help.
_COMMANDS = {
    "check": "check:check_inventory",
    "machine": "plan:show_machine",
    "plan": "plan:app",
    "up": "up:build_and_verify",
    "verify": "verify:verify_house",
    "receipt": "receipt:app",
    "agents": "agents:give_task",
    "talk": "talk:ask_by_voice",
    "status": "status:show_status",
    "doctor": "doctor:examine_house",
    "support": "doctor:pack_support",
    "logs": "logs:show_logs",
    "shell": "logs:open_shell",
    "models": "status:models",
    "secret": "secret:app",
    "lock": "lock:lock_all",
    "images": "images:app",
    "backup": "backup:make_backup",
    "restore": "backup:restore_backup",
    "remove": "remove:remove_service",
    "bench": "bench:app",
    "approve": "approve:approve_change",
    "sandbox": "sandbox:app",
    "watch": "watch:watch_house",
    "lab": "lab:app",
    "kokoro-patch": "kokoro_patch:patch_server",
}


# What works on the project here, or needs no inventory; every other command needs the house itself.
_HERE = ("check", "lock", "images", "lab", "kokoro-patch", "watch")


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are imported one at a time: importing all takes seconds."""

    def __init__(self, **settings: Any) -> None:
        """Name the commands, for suggestions after a typing error."""
        super().__init__(**settings)
        self.commands = dict.fromkeys(_COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None when the name is unknown."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(f"hearth.cli.{module}"), name)
        if not isinstance(command, typer.Typer):
            function, command = command, typer.Typer()
            command.command(cmd_name)(function)
        group = typer.main.get_group(command)
        return group.commands.get(cmd_name, group)


app = typer.Typer(
    name="hearth",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 a problem was found, 2 incorrect use.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(hearth.__version__)
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    """Build and run a private AI house on one Debian machine."""
    if {"-h", "--help", "--lab"} & {*sys.argv}:
        return
    command, words = str(context.invoked_subcommand), sys.argv[1:]
    # These two edit the inventory here, from which the house gets it.
    edits = "--new-key" in words or (command == "remove" and "--all" not in words)
    # These look at the house from here, and guard this very machine.
    here = "--from-lan" in words or words == ["sandbox", "guard"]
    # Figures of other machines are computed anywhere.
    here = here or words[:2] == ["plan", "predict"] or (command == "plan" and "--machine" in words)
    if edits or here or command in _HERE:
        return
    from hearth.project import current

    project = current()
    reach = project.house().machine.reach
    if reach != "local":
        from hearth.cli import remote

        raise typer.Exit(remote.run(project, reach, words))

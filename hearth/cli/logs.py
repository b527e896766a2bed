"""`hearth logs` and `hearth shell`: look into one service."""

import os
import shutil
import sys
from typing import Annotated

import typer

from hearth.catalogue.house import Part, Service
from hearth.cli.console import completion, find
from hearth.machine import engine, podman, systemd
from hearth.project import current
from hearth.render.quadlets import unit_name

_complete = completion(lambda: {**current().house().services, **current().house().parts})
Name = Annotated[
    str,
    typer.Argument(metavar="SERVICE", help="A service or part.", autocompletion=_complete),
]


def show_logs(
    service: Name,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", help="How many lines to print first.")
    ] = 100,
) -> None:
    """Print the journal of a service or part, and of the programs that help it.

    Example: hearth logs ollama -f
    """
    owner = find(current().house(), service)
    instance = owner.system if _instance(owner) and isinstance(owner, Service) else None
    if not follow:
        for line in systemd.journal(instance, owner.unit, lines):
            typer.echo(line)
        return
    run_instead(instance, [*systemd.journal_argv(owner.unit), "--follow", f"--lines={lines}"])


def open_shell(service: Name) -> None:
    """Open a shell in the instance of a service.

    Example: hearth shell litellm
    """
    owner = find(current().house(), service)
    instance = _instance(owner)
    if instance is None:
        raise typer.BadParameter(
            f"{service} runs on this machine itself, where you have a shell already"
        )
    run_instead(instance, ["/bin/bash", "-l"])


def _instance(owner: Service | Part) -> str | None:
    if isinstance(owner, Part):
        return None
    if owner.runtime == "external":
        raise typer.BadParameter(
            "this service runs on an external server, which Hearth cannot enter"
        )
    return owner.instance


def run_instead(instance: str | None, argv: list[str]) -> None:
    """Replace this process by a command; with one terminal `incus exec` loses no output."""
    if instance is not None and engine.contained(instance):
        argv = [podman.PROGRAM, "exec", "--interactive", "--tty", unit_name(instance), *argv]
    elif instance is not None:
        incus = shutil.which("incus")
        if incus is None:
            raise engine.EngineError("incus is not installed: run this on the machine of the house")
        argv = [incus, "exec", instance, "--", *argv]
    sys.stdout.flush()
    os.execv(argv[0], argv)  # noqa: S606 - no shell

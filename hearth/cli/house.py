"""Look at the house: its catalogue, its services, its journals, its models."""

import os
import shutil
import sys
from typing import Annotated

import typer

from hearth import status as now
from hearth.catalogue import CatalogueError
from hearth.cli import models_view
from hearth.cli.say import AsJson, complain, err, find, show, table, write_json
from hearth.machine import engine, systemd
from hearth.paths import ROOT_CERTIFICATE
from hearth.project import current


def _complete(incomplete: str) -> list[str]:
    """Return the services and parts that a word may become."""
    house = current().house()
    return [name for name in (*house.services, *house.parts) if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(metavar="SERVICE", help="A service or part.", autocompletion=_complete),
]


def check(as_json: AsJson = False) -> None:
    """Read the inventory and say everything that is wrong with it.

    Nothing is connected to and nothing changes.

    Example: hearth check
    """
    try:
        house = current().house()
    except CatalogueError as error:
        if as_json:
            write_json({"good": False, "problems": [str(p) for p in error.problems]})
        else:
            complain(str(error))
        raise typer.Exit(1) from None
    notes = [
        f"{alias.name} is not offered: {alias.reason}"
        for alias in house.aliases.values()
        if not alias.offered
    ]
    notes += [
        f"{alias.name} does without {dropped.name}: {dropped.reason}"
        for alias in house.aliases.values()
        if alias.offered
        for dropped in alias.dropped
    ]
    if as_json:
        write_json({"good": True, "problems": [], "notes": notes})
        return
    for note in notes:
        err.print(f"[yellow]note:[/yellow] {note}")
    show(
        f"[green]fine:[/green] {len(house.services)} services, {len(house.parts)} parts, "
        f"{len(house.aliases)} aliases, {len(house.sites)} addresses"
    )


def status(as_json: AsJson = False) -> None:
    """Show what is up, where to open it, and where the root certificate is.

    Example: hearth status --json
    """
    report = now.look(current().house())
    if as_json:
        write_json(report.as_json())
    else:
        show(
            table(
                ("", "name", "state", "since", "memory"),
                (
                    ("●" if row.up else "○", row.name, row.text, row.since_text, row.memory_text)
                    for row in report.rows
                ),
            )
        )
        for address in report.addresses:
            show(f"open   {address}")
        for address in report.trust:
            show(f"trust  {address}")
        show(f"root   {ROOT_CERTIFICATE} " + (report.fingerprint or "(not yet)"))
        show(f"runs   {report.accelerator}")
        for line in report.pending:
            show(f"comes  {line}")
    raise typer.Exit(0 if report.good else 1)


def logs(
    service: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many to begin with.")] = 100,
) -> None:
    """Show the journal of a service or part, with those of its helpers.

    Example: hearth logs ollama -f
    """
    owner = find(current().house(), service)
    instance = _instance(owner)
    if not follow:
        for line in systemd.journal(instance, owner.unit, lines):
            typer.echo(line)
        return
    _become(instance, [*systemd.journal_argv(owner.unit), "--follow", f"--lines={lines}"])


def shell(service: Name) -> None:
    """Open a shell in the instance of a service.

    Example: hearth shell litellm
    """
    owner = find(current().house(), service)
    instance = _instance(owner)
    if instance is None:
        raise typer.BadParameter(f"{service} runs on this machine itself: you are there already")
    _become(instance, ["/bin/bash", "-l"])


def _instance(owner: object) -> str | None:
    if getattr(owner, "runtime", "incus") == "external":
        raise typer.BadParameter("this service runs on somebody else's server")
    return getattr(owner, "instance", None)


def _become(instance: str | None, argv: list[str]) -> None:
    """Hand the terminal over: one person, one command, where `incus exec` loses nothing."""
    if instance is not None:
        incus = shutil.which("incus")
        if incus is None:
            raise engine.EngineError("incus is not installed here: run this on the house")
        argv = [incus, "exec", instance, "--", *argv]
    sys.stdout.flush()
    os.execv(argv[0], argv)  # noqa: S606 - a list, and no shell


def models(as_json: AsJson = False) -> None:
    """Show each model and alias: ready, or how far its download is.

    Example: hearth models
    """
    overview = now.models(current().house())
    if as_json:
        write_json(overview.as_json())
    else:
        show(models_view.table(overview))

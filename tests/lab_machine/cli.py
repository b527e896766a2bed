"""`hearth lab`: lab machines from the command line."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hearth.project import current
from tests.lab_machine import disk, house, inside, machine, steps
from tests.lab_machine.command import LabError
from tests.lab_machine.model import Machine, load_all, parse_size

app = typer.Typer(
    name="lab",
    help="Disposable Debian 13 machines with real Incus inside, for trials and tests.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(help="The machine, at most 11 characters.")]
KeepPackages = Annotated[bool, typer.Option(help="Keep the packages that labs installed here.")]
KeepCache = Annotated[bool, typer.Option(help="Keep the package and base disk caches.")]


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Print steps with their times; turn a `LabError` into one line and exit code 1."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def show(text: str, seconds: float | None) -> None:
        times = "        " if seconds is None else f"{seconds:6.1f} s"
        console.print(f"[dim]{times}[/dim]  ", end="")
        console.print(text, markup=False)

    steps.listen(show)
    try:
        if os.geteuid() != 0:
            raise LabError("lab machines need root: put `sudo` before the command")
        yield
    except LabError as error:
        console.print("[red]error:[/red] ", end="")
        console.print(str(error), markup=False)
        raise typer.Exit(1) from None


@app.command()
def create(
    name: Name,
    size: Annotated[str, typer.Option(help="Size of its disk, such as 24G.")] = "24G",
    guest_of: Annotated[str | None, typer.Option(help="The house whose LAN it is on.")] = None,
    memory: Annotated[str | None, typer.Option(help="Its memory, such as 6G.")] = None,
    package: Annotated[
        list[str] | None, typer.Option(help="A Debian package to install; may be repeated.")
    ] = None,
) -> None:
    """Create an empty machine and boot it.

    Example: hearth lab create try
    """
    with _reported():
        machine.create(
            name,
            size_bytes=parse_size(size),
            guest_of=guest_of,
            memory_bytes=parse_size(memory) if memory else None,
            packages=package or (),
        )


@app.command()
def up(
    name: Name,
    preview: Annotated[bool, typer.Option("--check", help="Only show what would change.")] = False,
) -> None:
    """Build a house in a lab machine, which is created if it is missing.

    Example: hearth lab up house
    """
    with _reported():
        code = house.build(current(), name, ("--check",) if preview else ())
    raise typer.Exit(code)


@app.command()
def start(name: Name) -> None:
    """Boot a stopped machine."""
    with _reported():
        machine.start(name)


@app.command()
def stop(name: Name) -> None:
    """Shut a machine down cleanly."""
    with _reported():
        machine.stop(name)


@app.command()
def save(name: Name, tag: Annotated[str, typer.Argument(help="A name for the state.")]) -> None:
    """Save a machine's disk as it is now.

    Example: hearth lab save try fresh
    """
    with _reported():
        machine.save(name, tag)


@app.command()
def restore(name: Name, tag: Annotated[str, typer.Argument(help="A saved state.")]) -> None:
    """Return a machine to a saved state and boot it."""
    with _reported():
        machine.restore(name, tag)


@app.command()
def destroy(
    name: Annotated[str | None, typer.Argument(help="The machine.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All machines.")] = False,
    keep_packages: KeepPackages = False,
    keep_cache: KeepCache = False,
) -> None:
    """Remove a machine, and with the last one all changes that labs made on this computer."""
    if (name is None) == (not every):
        raise typer.BadParameter("name one machine, or pass --all")
    with _reported():
        if name is None:
            machine.destroy_all(keep_packages=keep_packages, keep_cache=keep_cache)
        else:
            machine.destroy(name, keep_packages=keep_packages, keep_cache=keep_cache)


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    name: Name,
    command: Annotated[list[str] | None, typer.Argument(help="A command, after `--`.")] = None,
) -> None:
    """Open a shell in a machine, or run one command there.

    Example: hearth lab shell try -- incus list
    """
    with _reported():
        code = inside.interactive(name, command or [])
    raise typer.Exit(code)


@app.command("list")
def list_machines(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the lab machines."""
    rows = [_row(known) for known in load_all()]
    if as_json:
        json.dump(rows, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    table = Table("machine", "state", "address", "guest of", "disk", "used", "saved", box=None)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console().print(table if rows else "No lab machines; create one: hearth lab create NAME")


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"{value / (1 << 30):.1f} GiB"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _row(known: Machine) -> dict[str, object]:
    return {
        "name": known.name,
        "state": "running" if inside.running(known) else "stopped",
        "address": known.address,
        "house": known.house,
        "size_bytes": known.size_bytes,
        "used_bytes": disk.used_bytes(known.disk),
        "saved": disk.saved(known.mount),
    }

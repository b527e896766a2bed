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

from tests.lab_machine import disk, inside, machine, steps
from tests.lab_machine.command import LabError
from tests.lab_machine.model import Machine, load_all, parse_size

app = typer.Typer(
    name="lab",
    help="Throw-away Debian 13 machines with real Incus inside, for trying and testing.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(help="The machine, at most 11 characters.")]
KeepPackages = Annotated[bool, typer.Option(help="Leave the packages that labs installed here.")]
KeepCache = Annotated[bool, typer.Option(help="Leave the package and base caches here.")]


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Print steps with their times; turn a `LabError` into one line and exit code 1."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(text: str, seconds: float | None) -> None:
        times = "        " if seconds is None else f"{seconds:6.1f} s"
        console.print(f"[dim]{times}[/dim]  {text}")

    steps.listen(say)
    try:
        if os.geteuid() != 0:
            raise LabError("lab machines need root: say `sudo` before the command")
        yield
    except LabError as error:
        console.print(f"[red]error:[/red] {error}", markup=True)
        raise typer.Exit(1) from None


@app.command()
def create(
    name: Name,
    size: Annotated[str, typer.Option(help="Size of its disk, such as 24G.")] = "24G",
    guest_of: Annotated[str | None, typer.Option(help="The house whose LAN it is on.")] = None,
    memory: Annotated[str | None, typer.Option(help="Its memory, such as 6G.")] = None,
    package: Annotated[
        list[str] | None, typer.Option(help="A Debian package that it begins with; several.")
    ] = None,
) -> None:
    """Make a bare machine and boot it, such as: hearth lab create try."""
    with _told():
        machine.create(
            name,
            size_bytes=parse_size(size),
            guest_of=guest_of,
            memory_bytes=parse_size(memory) if memory else None,
            packages=package or (),
        )


@app.command()
def start(name: Name) -> None:
    """Boot a stopped machine."""
    with _told():
        machine.start(name)


@app.command()
def stop(name: Name) -> None:
    """Shut a machine down in order."""
    with _told():
        machine.stop(name)


@app.command()
def save(name: Name, tag: Annotated[str, typer.Argument(help="Any word.")]) -> None:
    """Keep a machine's disk as it is now, such as: hearth lab save try fresh."""
    with _told():
        machine.save(name, tag)


@app.command()
def restore(name: Name, tag: Annotated[str, typer.Argument(help="A saved state.")]) -> None:
    """Put a machine back to a saved state and boot it."""
    with _told():
        machine.restore(name, tag)


@app.command()
def destroy(
    name: Annotated[str | None, typer.Argument(help="The machine.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every machine there is.")] = False,
    keep_packages: KeepPackages = False,
    keep_cache: KeepCache = False,
) -> None:
    """Remove a machine, and with the last one all that labs changed here."""
    if (name is None) == (not every):
        raise typer.BadParameter("name one machine, or say --all")
    with _told():
        if name is None:
            machine.destroy_all(keep_packages=keep_packages, keep_cache=keep_cache)
        else:
            machine.destroy(name, keep_packages=keep_packages, keep_cache=keep_cache)


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    name: Name,
    command: Annotated[list[str] | None, typer.Argument(help="A command, after `--`.")] = None,
) -> None:
    """Open a shell inside, or run a command: hearth lab shell try -- incus list."""
    with _told():
        code = inside.interactive(name, command or [])
    raise typer.Exit(code)


@app.command("list")
def list_machines(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show the lab machines that there are."""
    rows = [_row(known) for known in load_all()]
    if as_json:
        json.dump(rows, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    table = Table("machine", "state", "address", "guest of", "disk", "used", "saved", box=None)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console().print(table if rows else "No lab machines; make one: hearth lab create NAME")


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


if __name__ == "__main__":
    app()

"""How the command line talks: data to stdout, everything else to stderr."""

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from hearth.catalogue import House, suggest
from hearth.catalogue.house import Part, Service

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]


def complain(text: str) -> None:
    """Write what is wrong, line by line, without reading it as markup."""
    for line in text.splitlines():
        err.print("[red]error:[/red]", end=" ")
        err.print(line, markup=False)


def write_json(value: Any) -> None:
    """Write JSON to stdout."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def show(what: RenderableType) -> None:
    """Write something rich to stdout."""
    out.print(what)


def table(columns: Iterable[str], rows: Iterable[Iterable[RenderableType]]) -> Table:
    """Return a plain table."""
    grid = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        grid.add_row(*row)
    return grid


def find(house: House, name: str) -> Service | Part:
    """Return the service or part of this name, or end as wrong use with the nearest one."""
    known: dict[str, Service | Part] = {**house.services, **house.parts}
    wanted = name.replace("-", "_")
    if wanted not in known:
        raise typer.BadParameter(f"no service {name!r}: {suggest(wanted, known)}")
    return known[wanted]

"""`hearth check`."""

import typer

from hearth.catalogue import CatalogueError
from hearth.cli.console import AsJson, note, print_json, show
from hearth.project import current
from hearth.render.agents import notes_on_trust


def check_inventory(as_json: AsJson = False) -> None:
    """Read the inventory and report every problem in it.

    This connects to nothing and changes nothing.

    Example: hearth check
    """
    try:
        house = current().house()
    except CatalogueError as error:
        if not as_json:
            raise
        print_json({"good": False, "problems": [str(p) for p in error.problems]})
        raise typer.Exit(1) from None
    notes = []
    for alias in house.aliases.values():
        if not alias.offered:
            notes.append(f"{alias.name} is not offered: {alias.reason}")
            continue
        notes += [f"{alias.name} leaves out {n}: {reason}" for n, reason in alias.dropped.items()]
    notes += notes_on_trust(house)
    if as_json:
        print_json({"good": True, "problems": [], "notes": notes})
        return
    for text in notes:
        note(text)
    show(
        f"[green]fine:[/green] {len(house.services)} services, {len(house.parts)} parts, "
        f"{len(house.aliases)} aliases, {len(house.sites)} addresses"
    )

"""`hearth check`."""

from pathlib import Path

import typer

from hearth.catalogue import CatalogueError, House
from hearth.cli.console import AsJson, note, print_error, print_json, show
from hearth.machine.facts import graphics, memory_bytes
from hearth.paths import PLAN, RECEIPT_FOLDER
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
    problems, notes = _misfits(house)
    for alias in house.aliases.values():
        if not alias.offered:
            notes.append(f"{alias.name} is not offered: {alias.reason}")
            continue
        notes += [f"{alias.name} leaves out {n}: {reason}" for n, reason in alias.dropped.items()]
    notes += notes_on_trust(house)
    if as_json:
        print_json({"good": not problems, "problems": problems, "notes": notes})
    else:
        for text in notes:
            note(text)
        for text in problems:
            print_error(text)
    if problems:
        raise typer.Exit(1)
    if as_json:
        return
    show(
        f"[green]fine:[/green] {len(house.services)} services, {len(house.parts)} parts, "
        f"{len(house.aliases)} aliases, {len(house.sites)} addresses"
    )


def _misfits(house: House) -> tuple[list[str], list[str]]:
    """Return the models that do not fit this machine, and a note where that is not known.

    The machine is as `hearth plan` measured it last; a plan for another one refuses nothing.
    """
    path = RECEIPT_FOLDER / PLAN
    try:
        text = path.read_text("utf-8")
    except OSError:
        return [], []
    # Here, since a house without a plan needs none of it.
    from hearth.plan import PlanError
    from hearth.plan.inventory import misfits, plan_of_document
    from hearth.plan.machine import other_machine

    try:
        plan = plan_of_document(text, str(path), house)
    except PlanError:
        return [], [f"{path} cannot be read: run `hearth plan`"]
    if changed := other_machine(plan.machine, memory_bytes(Path("/")), graphics().any_card):
        return [], [f"the plan is for another machine ({changed}): run `hearth plan`"]
    return list(misfits(plan, house)), []

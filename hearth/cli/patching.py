"""What `hearth kokoro-patch` does: think, show, ask, change; in a container by way of a copy."""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from hearth.catalogue import suggest
from hearth.cli.say import complain, err, out, write_json
from hearth_kokoro_patch import ALL, PatchError, Plan, plan
from hearth_kokoro_patch.containers import ROOT, Container, Engine, find
from hearth_kokoro_patch.record import FOLDER

_QUESTION = "Change these files?"
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody typed."""

    path: Path | None
    container: str | None
    engine: Engine | None
    without: tuple[str, ...]
    take_back: bool
    yes: bool
    as_json: bool


def patch(wish: Wish) -> None:
    """Do what is wished, or end with 1 and one line, or with 2 when nobody could mean this."""
    steps = _steps(wish)
    if wish.path is None and wish.container is None:
        raise typer.BadParameter("say --path DIR, or --container NAME")
    if not (wish.yes or wish.as_json or sys.stdin.isatty()):
        raise typer.BadParameter("nobody can be asked here: say --yes, or --json to look only")
    try:
        if wish.container is None:
            done = _offer(plan(wish.path or Path(), steps), None, wish)
        else:
            there = find(wish.container, wish.engine, str(wish.path or ROOT))
            done = _offer_inside(there, steps, wish)
    except PatchError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    raise typer.Exit(0 if done else 1)


def _steps(wish: Wish) -> frozenset[str]:
    for name in wish.without:
        if name not in ALL:
            raise typer.BadParameter(f"no step {name!r}: {suggest(name, ALL)}")
    if wish.take_back and wish.without:
        raise typer.BadParameter("--take-back takes every step back: leave --without out")
    return frozenset() if wish.take_back else ALL - {*wish.without}


def _offer_inside(there: Container, steps: frozenset[str], wish: Wish) -> bool:
    """Think about a copy of a container's files, and bring back what was agreed to."""
    if steps and there.mounted:
        raise PatchError(f"{there.name}: {there.mounted}: say --path DIR for that checkout instead")
    with tempfile.TemporaryDirectory(prefix="hearth-kokoro-patch-") as scratch:
        copy = Path(scratch).resolve()
        try:
            there.copy_out(copy)
            return _offer(plan(copy, steps), there, wish)
        except PatchError as error:
            # The copy's name means nothing to anybody.
            place = f"{there.name}:{there.root}"
            raise PatchError(str(error).replace(str(copy), place)) from None


def _offer(wanted: Plan, there: Container | None, wish: Wish) -> bool:
    """Show a plan, ask, and do it; return whether all is as it was asked for."""
    if not wish.as_json:
        _show(wanted)
    # JSON alone looks, and clears nothing away either.
    agreed = wish.yes or (
        not wish.as_json and (not wanted.files or typer.confirm(_QUESTION, err=True))
    )
    if agreed:
        wanted.apply()
        # Also what a killed run left in a container: a record that is of no more use.
        if there is not None and (wanted.files or wanted.forgets):
            there.copy_in(wanted)
    if wish.as_json:
        write_json(_report(wanted, there, agreed))
        return True
    if not agreed:
        err.print("nothing was changed")
    elif wanted.files:
        err.print(f"done: {_next(there)}")
    return agreed


def _show(wanted: Plan) -> None:
    for line in wanted.diff().splitlines():
        out.print(Text(line, style=_COLOURS.get(line[:1], "")))
    if not wanted.files:
        said = "these steps are there" if wanted.steps else "it is as it came"
        goes = f"; {FOLDER} goes" if wanted.forgets else ""
        err.print(f"nothing to do: {said}{goes}")
    for name in wanted.unchecked:
        err.print(f"[yellow]note:[/yellow] {name}: its syntax was not checked, as no node is here")


def _report(wanted: Plan, there: Container | None, agreed: bool) -> dict[str, Any]:
    return {
        "steps": list(wanted.steps),
        "files": list(wanted.files),
        "diff": wanted.diff(),
        "changed": agreed and bool(wanted.files),
        "unchecked": list(wanted.unchecked),
        "restart": there.restart if there else None,
    }


def _next(there: Container | None) -> str:
    if there is None:
        return "restart the server, so that it runs them"
    return f"now say `{there.restart}`; a container made anew will not have them"

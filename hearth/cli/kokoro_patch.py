"""`hearth kokoro-patch`: let a Kokoro-FastAPI stream, in a folder or a container."""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from hearth.catalogue import suggest
from hearth.cli.console import AsJson, err, note, out, print_error, print_json
from hearth_kokoro_patch import ALL, PatchError, Plan, plan
from hearth_kokoro_patch.containers import ROOT, Container, Engine, find
from hearth_kokoro_patch.record import FOLDER

app = typer.Typer()
_QUESTION = "Change these files?"
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one command."""

    path: Path | None
    container: str | None
    engine: Engine | None
    without: tuple[str, ...]
    take_back: bool
    yes: bool
    as_json: bool


@app.command("kokoro-patch")
def patch_server(
    path: Annotated[
        Path | None,
        typer.Option("--path", help="The folder with upstream's `api`; /app in a container."),
    ] = None,
    container: Annotated[
        str | None, typer.Option("--container", help="A container of Podman, Docker or Incus.")
    ] = None,
    engine: Annotated[
        Literal["podman", "docker", "incus"] | None,
        typer.Option("--engine", help="Its engine, if two have a container of that name."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", help="Leave out sentences, yielding, threads or player; may be repeated."
        ),
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Restore every original file, byte for byte.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Patch upstream's Kokoro-FastAPI to stream by sentence, and its player to work in Firefox.

    Shows the changes and asks before making them. An unknown release is rejected and left
    unchanged. With --json nothing is changed unless you add --yes.

    Example: hearth kokoro-patch --container kokoro --without threads
    """
    patch(Request(path, container, engine, tuple(without or ()), take_back, yes, as_json))


def patch(request: Request) -> None:
    """Patch, or exit with 1 and one line, or with 2 when the options make no sense."""
    steps = _steps(request)
    if request.path is None and request.container is None:
        raise typer.BadParameter("add --path DIR or --container NAME")
    if not (request.yes or request.as_json or sys.stdin.isatty()):
        raise typer.BadParameter(
            "this is not a terminal, so there is no way to ask: add --yes, or --json for no changes"
        )
    try:
        if request.container is None:
            done = _offer(plan(request.path or Path(), steps), None, request)
        else:
            there = find(request.container, request.engine, str(request.path or ROOT))
            done = _offer_inside(there, steps, request)
    except PatchError as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    raise typer.Exit(0 if done else 1)


def _steps(request: Request) -> frozenset[str]:
    for name in request.without:
        if name not in ALL:
            raise typer.BadParameter(f"no step {name!r}: {suggest(name, ALL)}")
    if request.take_back and request.without:
        raise typer.BadParameter("--take-back takes every step back: leave out --without")
    return frozenset() if request.take_back else ALL - {*request.without}


def _offer_inside(there: Container, steps: frozenset[str], request: Request) -> bool:
    """Plan on a copy of a container's files, and copy back what the person agreed to."""
    if steps and there.mounted:
        raise PatchError(f"{there.name}: {there.mounted}: use --path DIR for that checkout instead")
    with tempfile.TemporaryDirectory(prefix="hearth-kokoro-patch-") as scratch:
        copy = Path(scratch).resolve()
        try:
            there.copy_out(copy)
            return _offer(plan(copy, steps), there, request)
        except PatchError as error:
            # The copy's name means nothing to a person.
            place = f"{there.name}:{there.root}"
            raise PatchError(str(error).replace(str(copy), place)) from None


def _offer(wanted: Plan, there: Container | None, request: Request) -> bool:
    """Show a plan, ask, and apply it; return whether the files are as requested."""
    if not request.as_json:
        _show(wanted)
    # --json alone changes nothing at all.
    agreed = request.yes or (
        not request.as_json and (not wanted.files or typer.confirm(_QUESTION, err=True))
    )
    if agreed:
        wanted.apply()
        # Also when only a record is left that a killed run did not remove.
        if there is not None and (wanted.files or wanted.forgets):
            there.copy_in(wanted)
    if request.as_json:
        print_json(_report(wanted, there, agreed))
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
        state = "these steps are applied" if wanted.steps else "it is unpatched"
        removal = f"; {FOLDER} is removed" if wanted.forgets else ""
        err.print(f"nothing to do: {state}{removal}")
    for name in wanted.unchecked:
        note(f"{name}: its syntax was not checked, because node is not installed")


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
        return "restart the server to use them"
    return f"run `{there.restart}` now; a newly created container will not have them"

"""`hearth kokoro-patch`: let a Kokoro-FastAPI stream, in a folder or a container."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from hearth.cli.console import AsJson, err, known, note, out, print_json
from hearth.machine import engines
from hearth_kokoro_patch import ALL, PatchError, Plan, plan
from hearth_kokoro_patch.containers import ROOT, Container, find
from hearth_kokoro_patch.record import FOLDER

_QUESTION = "Change these files?"
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def patch_server(
    path: Annotated[
        Path | None, typer.Option(help="The folder with upstream's `api`; /app in a container.")
    ] = None,
    container: Annotated[
        str | None, typer.Option(help="A container of Podman, Docker or Incus.")
    ] = None,
    engine: Annotated[
        Literal["podman", "docker", "incus"] | None,
        typer.Option(help="Its engine, if two have a container of that name."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave out sentences, yielding, threads or player; may be repeated."),
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Restore every original file, byte for byte.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Patch upstream's Kokoro-FastAPI to stream by sentence, and its player to work in Firefox.

    Shows the changes and asks for confirmation before making them. An unknown release is rejected
    and left unchanged. With --json nothing is changed unless you add --yes.

    Example: hearth kokoro-patch --container kokoro --without threads
    """
    for name in without or ():
        known("step", name, ALL)
    if take_back and without:
        raise typer.BadParameter("--take-back undoes every step: leave out --without")
    if path is None and container is None:
        raise typer.BadParameter("add --path DIR or --container NAME")
    if not (yes or as_json or sys.stdin.isatty()):
        raise typer.BadParameter(
            "this is not a terminal, so Hearth cannot ask: add --yes, or --json for no changes"
        )
    steps = frozenset() if take_back else ALL - {*(without or ())}
    if container is None:
        done = _offer(plan(path or Path(), steps), None, yes, as_json)
    else:
        target = find(container, engines.of_this_user(engine), str(path or ROOT))
        with _copied(target, steps) as copy:
            done = _offer(plan(copy, steps), target, yes, as_json)
    raise typer.Exit(0 if done else 1)


@contextmanager
def _copied(target: Container, steps: frozenset[str]) -> Iterator[Path]:
    """Copy a container's files for a plan; what the person agrees to is copied back."""
    if steps and target.mounted:
        raise PatchError(
            f"{target.name}: {target.mounted}: use --path DIR for that checkout instead"
        )
    with tempfile.TemporaryDirectory(prefix="hearth-kokoro-patch-") as scratch:
        copy = Path(scratch).resolve()
        try:
            target.copy_out(copy)
            yield copy
        except PatchError as error:
            # The copy's name means nothing to a person.
            place = f"{target.name}:{target.root}"
            raise PatchError(str(error).replace(str(copy), place)) from None


def _offer(wanted: Plan, target: Container | None, yes: bool, as_json: bool) -> bool:
    """Show a plan, ask, and apply it; return whether the files are as requested."""
    if not as_json:
        _show(wanted)
    # --json alone changes nothing at all.
    agreed = yes or (not as_json and (not wanted.files or typer.confirm(_QUESTION, err=True)))
    if agreed:
        wanted.apply()
        # Also when only a record is left that a killed run did not remove.
        if target is not None and (wanted.files or wanted.forgets):
            target.copy_in(wanted)
    if as_json:
        plan_json = {"steps": wanted.steps, "files": wanted.files, "diff": wanted.diff()}
        changed, restart = agreed and bool(wanted.files), target.restart if target else None
        more = {"changed": changed, "unchecked": wanted.unchecked, "restart": restart}
        print_json({**plan_json, **more})
        return True
    if not agreed:
        err.print("nothing was changed")
    elif wanted.files:
        after = "restart the server to use them"
        if target is not None:
            after = f"run `{target.restart}` now; a newly created container will not have them"
        err.print(f"done: {after}")
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

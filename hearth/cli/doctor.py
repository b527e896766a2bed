"""`hearth doctor` and `hearth support`: what is wrong with the house, and what a helper needs."""

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hearth.catalogue.house import House
from hearth.cli.console import AsJson, confirm, err, note, show, show_or_print, waiting
from hearth.doctor import from_lan, kinds, support
from hearth.doctor.examination import context_here, examine, hanging
from hearth.doctor.finding import CHECKS, Finding
from hearth.doctor.fixes import FixError, fix, plan
from hearth.machine import runs
from hearth.project import Project, current

_COLOURS = {"error": "red", "warning": "yellow"}
# A program may take its `ready_s` until it answers again.
_HEALED_S, _LOOK_AGAIN_S = 120, 3


def examine_house(
    mend: Annotated[
        bool,
        typer.Option("--fix", help="Apply the safe fixes, asking before each."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only this finding, such as NAME:ABOUT.")
    ] = None,
    lan: Annotated[
        bool,
        typer.Option("--from-lan", help="Show what a phone on the LAN sees, on any computer."),
    ] = False,
    # The watcher's look of a moment ago: a second one takes as long as a program may hang.
    seen: Annotated[str | None, typer.Option(hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Find out what is wrong with the house, what it means, and what to do.

    It takes less than ten seconds and changes nothing without --fix. Each kind of finding has a
    page in docs/findings.

    Example: hearth doctor --fix
    """
    if yes and not mend:
        raise typer.BadParameter("--yes goes with --fix")
    if lan and mend:
        raise typer.BadParameter("--from-lan only looks: leave --fix out")
    if lan:
        _show_lan(as_json)
        return
    if os.geteuid() != 0:
        raise PermissionError(1, "only root can look into the house", "hearth doctor")
    if mend and (run := runs.active()):
        raise runs.BusyError(f"a run changes this house, wait for its end: {run}")
    project = current()
    if mend and only and seen:
        house, found = project.house(), [_finding(only, seen)]
    else:
        house, found = _look(project, only)
    if mend:
        found = _heal(project, house, found, only, yes)
    busy = runs.active()
    document = {
        "good": not found,
        "run": str(busy) if busy else None,
        "findings": [one.as_json() for one in found],
    }
    show_or_print(as_json, document, _view(found))
    if busy:
        note(f"a run changes this house now, so findings may pass: {busy}")
    _end(1 if found else 0)


def _end(code: int) -> NoReturn:
    """End with this code, also while a check hangs, for which Python itself would wait."""
    if hanging():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)


def _look(project: Project, only: str | None) -> tuple[House, list[Finding]]:
    with waiting(f"{len(CHECKS)} checks look at the house"):
        context = context_here(project)
        found = examine(context)
    return context.house, [one for one in found if only in (None, one.key)]


def _finding(key: str, evidence: str) -> Finding:
    name, _, about = key.partition(":")
    if name not in kinds.ALL:
        raise typer.BadParameter(f"{name} is not a kind of finding")
    return Finding(kinds.ALL[name], about, evidence)


def _view(found: Sequence[Finding]) -> RenderableType:
    """Return the findings for a terminal."""
    if not found:
        return Text("no findings", style="green")
    blocks: list[RenderableType] = []
    for one in found:
        head = Text(one.kind.name, style=_COLOURS[one.kind.severity])
        head.append(f"  {one.kind.title}{f': {one.about}' if one.about else ''}", style="bold")
        blocks += [head, Text(f"  seen    {one.evidence}"), Text(f"  means   {one.kind.means}")]
        blocks += [Text(f"  do      {one.kind.todo}"), ""]
    healed = sum(one.kind.fixable for one in found)
    text = f"{len(found)} findings" if len(found) > 1 else "1 finding"
    more = f"; `hearth doctor --fix` can heal {healed}" if healed else ""
    return Group(*blocks, Text(f"{text}{more}", style="red"))


def _heal(
    project: Project, house: House, found: Sequence[Finding], only: str | None, yes: bool
) -> list[Finding]:
    """Carry out the safe fixes one after the other; return what is left then."""
    done = []
    # First what a killed run left: a new run would wait for it.
    for one in sorted(found, key=lambda one: one.kind is not kinds.RUN_UNFINISHED):
        if not one.kind.fixable:
            continue
        try:
            err.print(f"[bold]{one.kind.name}[/bold] {one.about}: {one.evidence}", markup=True)
            err.print(f"  will {plan(one, house)}", markup=False)
            confirm("  do it?", yes)
            with waiting(f"Heal {one.key}"):
                err.print(f"  {fix(one, house)}", markup=False)
            done.append(one.key)
        except FixError as error:
            err.print(f"  not done: {error}", markup=False)
        except typer.Abort:
            err.print("  left as it is", markup=False)
    if not done:
        return list(found)
    end = time.monotonic() + _HEALED_S
    while True:
        _, left = _look(project, only)
        still = [one.key for one in left if one.key in done]
        if not still or time.monotonic() > end:
            break
        time.sleep(_LOOK_AGAIN_S)
    for key in done:
        err.print(f"  {'not healed' if key in still else 'healed'}: {key}", markup=False)
    return left


def _show_lan(as_json: bool) -> None:
    project = current()
    seen = from_lan.look(project)
    lines: list[RenderableType] = [Text(f"seen from {seen.place}")]
    for row in seen.rows:
        lines.append(Text(f"{'●' if row.good else '○'} {row.what}: {row.text}"))
    document: dict[str, Any] = seen.as_json()
    show_or_print(as_json, document, Group(*lines))
    raise typer.Exit(0 if seen.good else 1)


def pack_support(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Where to write the archive.")
    ] = None,
) -> None:
    """Collect diagnostics for support in one archive, without any secret.

    It holds the last receipts, states, findings, versions, the end of each journal, the rendered
    configuration and the inventory. Look through it before you hand it on.

    Example: hearth support
    """
    if os.geteuid() != 0:
        raise PermissionError(1, "only root can look into the house", "hearth support")
    path = to or Path(f"hearth-support-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    with waiting("Pack") as detail:
        packed = support.pack(current(), path, detail)
    show(f"[green]made:[/green] {path}  ({packed.size / 1e6:.1f} MB, {packed.files} files)")
    show(f"{packed.redacted} secrets were left out")

"""`hearth verify`: run the smoke tests and show the receipt."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hearth.cli.compose import AsCompose, enter, take_over
from hearth.cli.console import AsJson, display, show_or_print, table
from hearth.paths import FORM, RECEIPT_FOLDER
from hearth.project import Project, current
from hearth.smoke.history import write
from hearth.smoke.receipt import Drill, Receipt, Verdict, number, run

_COLOURS = {"passed": "green", "failed": "red", "pending": "yellow", "not measured": "yellow"}


def verify_house(
    drill: Annotated[
        bool,
        typer.Option(
            "--drill", help="Also break models on purpose, beside the house. Takes minutes."
        ),
    ] = False,
    as_compose: AsCompose = False,
    as_json: AsJson = False,
) -> None:
    """Run the smoke tests on the live house and write the receipt.

    This changes nothing in the house. It ends within twice the time that it took before (three
    minutes at least, ten the first time), whatever hangs. The receipt is in /var/lib/hearth/receipt
    and at https://home.DOMAIN.

    Example: hearth verify
    """
    enter(as_compose)
    if FORM:
        take_over(current())
    receipt = run_tests(current(), "home or drill" if drill else "home")
    show_or_print(as_json, receipt.as_json(), view(receipt))
    raise typer.Exit(0 if receipt.good else 1)


def run_tests(project: Project, mark: str) -> Receipt:
    """Run the tests while showing their progress, then write the receipt and return it."""
    with display() as shown:
        shown.running.start("", "The house is being verified")
        seen = 0

        def show_progress(verdict: Verdict, total: int) -> None:
            nonlocal seen
            seen += 1
            now = f"{seen} of {total}, after “{verdict.promise} {verdict.about}”"
            shown.running.detail("", "", now)
            if verdict.outcome == "failed":
                shown.print(f"[red]failed[/red]  {verdict.promise}: {verdict.about}", end=" ")
                shown.print(verdict.detail, markup=False)

        receipt = run(project, mark, show_progress)
    write(receipt, RECEIPT_FOLDER)
    return receipt


def view(receipt: Receipt, path: Path = RECEIPT_FOLDER / "index.html") -> RenderableType:
    """Return a receipt for a terminal; `path` is where it is kept."""
    figures = table(
        ("figure", "median", "p95", "unit", "n"),
        ((f.name, number(f.median), number(f.p95), f.unit, str(f.n)) for f in receipt.all_figures),
    )
    not_passed = table(
        ("verdict", "promise", "about", "why"),
        (
            (Text(v.word, _COLOURS[v.outcome]), v.promise, v.about, Text(v.detail))
            for v in receipt.verdicts
            if v.outcome != "passed"
        ),
    )
    colour = "green" if receipt.good else "red"
    end = f"\n[{colour}]{receipt.summary or 'nothing was tested'}[/]  in {receipt.seconds:g} s"
    journals = {name: lines for v in receipt.verdicts for name, lines in v.journal.items()}
    content: list[RenderableType] = [figures, ""]
    content += [not_passed] if not_passed.row_count else []
    content += [_drilled(receipt.drill), ""] if receipt.drill else []
    for name, lines in journals.items():
        content += [Text(f"\nJournal of {name}", style="dim"), *map(Text, lines)]
    content += [Text(line, style="yellow") for line in receipt.remarks]
    return Group(*content, end, f"receipt: {path}")


def _drilled(drill: Drill) -> RenderableType:
    """Return the last drill, a row for each alias."""
    rows = (
        (line.alias, f"{line.right} of {line.of}", _seconds(line.quick_s), _seconds(line.slow_s))
        for line in drill.lines
    )
    heads = (f"fallback, drilled {drill.made}", "as expected", "next member", "after silence")
    return table(heads, rows)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{number(value)} s"

"""Prove the house: `hearth verify` and `hearth bench`."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hearth.cli.say import AsJson, err, show, table, write_json
from hearth.project import RECEIPT_FOLDER, Project, current
from hearth.verify.page import number, write
from hearth.verify.receipt import Receipt, Verdict
from hearth.verify.run import run

bench = typer.Typer(help="Measure.", no_args_is_help=True)
_COLOURS = {"passed": "green", "failed": "red", "pending": "yellow", "not measured": "yellow"}


def verify(
    drill: Annotated[
        bool,
        typer.Option(
            "--drill", help="Also break things on purpose, beside the house; no drill is there yet."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the smoke tests on the live house and write the receipt.

    Changes nothing in the house and takes three minutes at most. The receipt lies in
    /var/lib/hearth/receipt and is shown at https://home.DOMAIN.

    Example: hearth verify
    """
    receipt = prove(current(), "home or drill" if drill else "home")
    if as_json:
        write_json(receipt.as_json())
    else:
        show(view(receipt))
    raise typer.Exit(0 if receipt.good else 1)


def prove(project: Project, mark: str) -> Receipt:
    """Run the tests with a line of progress, write the receipt and return it."""
    with err.status("[dim]The house is being verified[/dim]") as status:
        seen = 0

        def tell(verdict: Verdict, total: int) -> None:
            nonlocal seen
            seen += 1
            status.update(f"[dim]{seen} of {total}: {verdict.promise} {verdict.about}[/dim]")
            if verdict.outcome == "failed":
                err.print(f"[red]failed[/red]  {verdict.promise}: {verdict.about}", end=" ")
                err.print(verdict.detail, markup=False)

        receipt = run(project, mark, tell)
    write(receipt, RECEIPT_FOLDER)
    return receipt


def view(receipt: Receipt) -> RenderableType:
    """Return a receipt as people read it in a terminal."""
    figures = table(
        ("figure", "median", "p95", "unit", "n"),
        ((f.name, number(f.median), number(f.p95), f.unit, str(f.n)) for f in receipt.figures),
    )
    open_ends = table(
        ("verdict", "promise", "about", "why"),
        (
            (Text(v.word, _COLOURS[v.outcome]), v.promise, v.about, Text(v.detail))
            for v in receipt.verdicts
            if v.outcome != "passed"
        ),
    )
    colour = "green" if receipt.good else "red"
    end = f"\n[{colour}]{receipt.summary or 'nothing was tested'}[/]  in {receipt.seconds:g} s"
    parts: list[RenderableType] = [figures, ""]
    if open_ends.row_count:
        parts += [open_ends]
    return Group(*parts, *_journals(receipt), end, f"receipt: {RECEIPT_FOLDER}/index.html")


def _journals(receipt: Receipt) -> list[Text]:
    """Return the journal of each service that something failed about, once."""
    lines: list[Text] = []
    seen: set[str] = set()
    for verdict in receipt.verdicts:
        # A promise about nobody in particular has a journal of its own.
        whose = verdict.about or verdict.promise
        if verdict.journal and whose not in seen:
            seen.add(whose)
            lines.append(Text(f"\nJournal of {whose}", style="dim"))
            lines += [Text(line) for line in verdict.journal]
    return lines


@bench.command("llm")
def bench_llm(
    pairs: Annotated[int, typer.Option("--pairs", "-n", min=1, help="Calls of each way.")] = 100,
    model: Annotated[str, typer.Option("--model", help="A model or alias.")] = "fast",
    as_json: AsJson = False,
) -> None:
    """Compare first-token time and speed, direct and through LiteLLM, in alternating calls.

    Example: hearth bench llm -n 100
    """
    from hearth.cli.benches import llm

    llm(pairs, model, as_json)

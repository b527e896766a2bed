"""`hearth receipt`: the receipts of earlier runs, one of them, or two beside each other."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from hearth.cli.console import AsJson, note, print_json, show, show_or_print, table
from hearth.cli.verify import view
from hearth.smoke.history import History, find, read_history
from hearth.smoke.receipt import Figure, number
from hearth.smoke.trend import FigureChange, ReceiptDifference, difference, trends

app = typer.Typer(name="receipt", invoke_without_command=True)
Which = Annotated[
    str,
    typer.Argument(help="last, last-1 and so on, the start of a name, or the path of a file."),
]
_COLOURS = {"worse": "red", "better": "green", "usual": "", "unknown": "yellow"}


@app.callback()
def list_receipts(context: typer.Context, as_json: AsJson = False) -> None:
    """List the kept receipts, show one, or compare two.

    Every `hearth up` and `hearth verify` writes one. The last 60 are kept, in
    /var/lib/hearth/receipt/history. They follow the schema docs/schema/receipt.json.

    Example: hearth receipt
    """
    if context.invoked_subcommand is not None:
        return
    history = _history()
    rows = [
        {
            "name": one.name,
            "good": one.receipt.good,
            "summary": one.receipt.summary,
            "hearth": one.receipt.hearth,
            "path": str(one.path),
        }
        for one in history.kept
    ]
    grid = table(
        ("name", "result", "Hearth"),
        (
            (
                str(r["name"]),
                Text(str(r["summary"]), "green" if r["good"] else "red"),
                str(r["hearth"]),
            )
            for r in rows
        ),
    )
    show_or_print(as_json, rows, grid if rows else "no receipt yet: run `hearth verify`")


@app.command("show")
def show_receipt(which: Which = "last", as_json: AsJson = False) -> None:
    """Show a receipt again, and which of its figures are outside what is usual on its machine.

    Example: hearth receipt show last-1
    """
    history = _history()
    one = find(history, which)
    if as_json:
        print_json(one.receipt.as_json())
        return
    machine = one.receipt.machine
    show(f"{one.name}  {machine.name}, {machine.cpu}, Linux {machine.kernel}, {one.receipt.hearth}")
    show(view(one.receipt, one.path))
    before = [kept.receipt for kept in history.kept if kept.name < one.name]
    for trend in trends([*before, one.receipt]):
        if trend.judgement in ("worse", "better"):
            line = f"{trend.judgement} than usual: {trend.name}: {trend.evidence}"
            show(Text(line, _COLOURS[trend.judgement]))


@app.command("diff")
def compare_receipts(
    a: Which = "last-1",
    b: Which = "last",
    everything: Annotated[
        bool, typer.Option("--all", help="Also show the figures that differ by chance only.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what became slower or worse beyond the noise, and what else changed, from A to B.

    The noise is how much the kept receipts of this machine differ among themselves. Receipts of
    two machines are shown side by side, without a judgement. Exit code 1 when a figure became
    worse, or a check fails that did not fail before.

    Example: hearth receipt diff last-1 last
    """
    history = _history()
    before, after = find(history, a), find(history, b)
    found = difference(before.receipt, after.receipt, history.receipts)
    title = f"A  {before.name}  {before.path}\nB  {after.name}  {after.path}"
    show_or_print(as_json, found.as_json(), Group(Text(title), *_view(found, everything)))
    raise typer.Exit(1 if found.worse or found.broken else 0)


def _history() -> History:
    history = read_history()
    for line in history.problems:
        note(f"skipped: {line}")
    return history


def _view(found: ReceiptDifference, everything: bool) -> list[RenderableType]:
    blocks: list[RenderableType] = [Text(line, style="yellow") for line in found.warnings]
    shown = [one for one in found.figures if everything or _is_news(one)]
    if shown:
        heads = ("figure", "A", "B", "unit", "", "noise", "")
        blocks += ["", table(heads, (_row(one) for one in shown))]
    for title, pairs in (("changed", found.versions), ("check", found.checks)):
        rows = ((name, a or "-", b or "-") for name, (a, b) in pairs.items())
        blocks += ["", table((title, "A", "B"), rows)] if pairs else []
    usual = sum(one.judgement == "usual" for one in found.figures)
    worse, better = (_count(found.figures, word) for word in ("worse", "better"))
    colour = "red" if found.worse or found.broken else "green"
    text = f"{worse} worse, {better} better, {usual} as before within the noise"
    return [*blocks, "", Text(text, style=colour)]


def _is_news(one: FigureChange) -> bool:
    # A figure that is neither good nor bad is no news by itself.
    return one.judgement in ("worse", "better") or one.why.startswith(("other", "only"))


def _row(one: FigureChange) -> Iterable[RenderableType]:
    margin = "" if one.margin is None else f"± {number(one.margin)}"
    word = Text("as before" if one.judgement == "usual" else one.judgement, _COLOURS[one.judgement])
    return one.name, _value(one.a), _value(one.b), one.unit, word, margin, one.why


def _value(figure: Figure | None) -> str:
    return "-" if figure is None else f"{number(figure.median)} (n={figure.n})"


def _count(figures: Sequence[FigureChange], judgement: str) -> int:
    return sum(one.judgement == judgement for one in figures)

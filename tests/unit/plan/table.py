"""The table of docs/planner.md: published speeds, our predictions and llmfit's.

`python -m tests.unit.plan.table` writes it into the document; a test compares them.
"""

import csv
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.unit.plan.published import CONTRADICT, FOLDER, Published, rows

DOCUMENT = Path(__file__).parents[3] / "docs" / "planner.md"
START, END = "<!-- table: start -->\n", "<!-- table: end -->\n"
_SHOWN = ("eleven", "blind", "check")
_NAMES = {
    "eleven": "the reference's eleven rows (eight of them seen by the constants)",
    "blind": "twelve rows found after the constants were fixed",
    "check": "fifty rows that the fit left out, looked at while constants were rounded",
    "fit": "the rows of the fit",
}


def llmfit() -> dict[tuple[str, ...], float]:
    """Return llmfit 1.1.17's predictions by machine, model and quantisation."""
    with (FOLDER / "llmfit.csv").open(encoding="utf-8") as stream:
        return {
            (row["machine"], row["model"], row["quantisation"]): float(row["tokens_per_s"])
            for row in csv.DictReader(stream)
        }


def text() -> str:
    """Return both tables in Markdown."""
    other = llmfit()
    return "\n".join([*_summary(other), "", *_rows(other), ""])


def _summary(other: dict[tuple[str, ...], float]) -> Iterator[str]:
    yield "| rows | n | median error | worst | over 35 % | llmfit: median | llmfit: worst |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for use, name in _NAMES.items():
        them = [row for row in rows() if row.use == use]
        ours = [abs(row.error) for row in them]
        theirs = [abs(other[_key(row)] / row.measured - 1) for row in them if _key(row) in other]
        cells = [name, str(len(them)), *_figures(ours), str(sum(error > 0.35 for error in ours))]
        cells += _figures(theirs) if theirs else ["-", "-"]
        yield f"| {' | '.join(cells)} |"


def _figures(errors: list[float]) -> Iterable[str]:
    return f"{100 * statistics.median(errors):.0f} %", f"{100 * max(errors):.0f} %"


def _rows(other: dict[tuple[str, ...], float]) -> Iterator[str]:
    yield "| machine | model | where | measured | predicted | range | error | llmfit |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for use in _SHOWN:
        for row in rows():
            if row.use == use:
                yield f"| {' | '.join(_cells(row, other.get(_key(row))))} |"


def _cells(row: Published, theirs: float | None) -> Iterator[str]:
    found = row.prediction
    machine = row.machine if row.use == "eleven" else f"[{row.machine}]({row.source})"
    mark = " \\*" if row.use == "eleven" and (row.model, row.inputs[2]) in CONTRADICT else ""
    yield machine
    yield f"{row.model} {row.inputs[2]}{mark}"
    yield found["where"]
    yield f"{row.measured:g}"
    yield f"{found['tokens_per_s']:.3g}"
    yield f"{found['low']:.3g} to {found['high']:.3g}"
    yield f"{100 * row.error:+.0f} %"
    yield "-" if theirs is None else f"{100 * (theirs / row.measured - 1):+.0f} %"


def _key(row: Published) -> tuple[str, ...]:
    return row.machine, row.model, row.inputs[2]


def replaced(document: str) -> str:
    """Return the document with today's tables."""
    before, _, rest = document.partition(START)
    return f"{before}{START}\n{text()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")

"""Draws what was measured: when each answer began, and when it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hearth.bench.tts.report.figures import Case, Figures, Report
from hearth.bench.tts.report.view import case_text, machine_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#2a6f97", "#bc6c25", "#588157", "#9d4edd")
_WIDTH_INCHES = 11.0
_ROW_INCHES = 0.26
_HEAD_INCHES = 0.8
# Voices side by side; a whole row of the page can be cut into one, two or three.
_BESIDE = 3
_COLUMNS = 6
_LONGER = ("paragraph", "long")


@dataclass(frozen=True, slots=True)
class Bar:
    """One kind of request to one server; `figures` is None where it was not measured."""

    label: str
    colour: str
    figures: Figures | None


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars with a scale of their own."""

    title: str
    bars: tuple[Bar, ...]


def draw(report: Report, into: Path) -> None:
    """Write a PNG: for each kind of request a bar from the first sound to the last byte."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    lines = panels(report)
    heights = [_HEAD_INCHES + _ROW_INCHES * len(line[0].bars) for line in lines] or [_HEAD_INCHES]
    figure = Figure(figsize=(_WIDTH_INCHES, sum(heights) + 0.6), layout="constrained")
    figure.suptitle("Speech: pale until the first sound, full until the last byte; medians in ms")
    grid = figure.add_gridspec(len(heights), _COLUMNS, height_ratios=heights)
    for row, line in enumerate(lines):
        width = _COLUMNS // len(line)
        for column, panel in enumerate(line):
            axes = figure.add_subplot(grid[row, column * width : (column + 1) * width])
            _bars(axes, panel, labelled=column == 0, narrow=len(line) > 1)
    figure.text(0.01, -0.01, machine_text(report), fontsize=7, color="#555555", va="top")
    figure.savefig(into, dpi=130, bbox_inches="tight", format="png")


def panels(report: Report) -> list[list[Panel]]:
    """Return what is drawn, line by line: a text of minutes would leave nothing of a phrase."""
    cases = list(dict.fromkeys(f.case for server in report.servers for f in server.figures))
    cells = [case for case in cases if case.what == "sample"]
    rest = [case for case in cases if case.what != "sample"]
    longer = [case for case in rest if case.what in _LONGER]
    short = [case for case in rest if case.what not in _LONGER]
    parts = (
        ("one at a time", [case for case in short if case.clients == 1]),
        ("several at once", [case for case in short if case.clients > 1]),
        ("longer texts", longer),
    )
    lines = [[Panel(title, _of(report, some, _whole))] for title, some in parts if some]
    # The grid of formats and voices is too much for one list: each voice has its own column.
    forms = list(dict.fromkeys((case.format, case.streamed) for case in cells))
    each = [
        Panel(
            f"every format, {voice}",
            _of(report, [Case("sample", f, voice, on) for f, on in forms], _form),
        )
        for voice in dict.fromkeys(case.voice for case in cells)
    ]
    return lines + [each[n : n + _BESIDE] for n in range(0, len(each), _BESIDE)]


def _of(
    report: Report, cases: Sequence[Case], label: Callable[[Case, int], str]
) -> tuple[Bar, ...]:
    """Return the bars of some kinds of requests, those of all servers side by side."""
    bars = []
    for case in cases:
        for number, server in enumerate(report.servers):
            figures = next((f for f in server.figures if f.case == case), None)
            said = label(case, figures.characters if figures else 0)
            said += f" · {server.name}" if len(report.servers) > 1 else ""
            bars.append(Bar(said, _COLOURS[number % len(_COLOURS)], figures))
    return tuple(bars)


def _whole(case: Case, characters: int) -> str:
    return case_text(case, characters)


def _form(case: Case, characters: int) -> str:
    return case.format if case.streamed else f"{case.format}, not streamed"


def _bars(axes: Axes, panel: Panel, *, labelled: bool, narrow: bool) -> None:
    for place, bar in enumerate(panel.bars):
        first = bar.figures and bar.figures.ttfa_ms
        last = bar.figures and bar.figures.last_byte_ms
        if not bar.figures or not first or not last:
            axes.text(0, place, " nothing", va="center", fontsize=7, color="#777777")
            continue
        axes.barh(place, first.median, color=bar.colour, alpha=0.25, height=0.7)
        rest = last.median - first.median
        axes.barh(place, rest, left=first.median, color=bar.colour, height=0.7)
        said = f" {first.median:,.0f} → {last.median:,.0f}"
        if bar.figures.stalls:
            said += f", {bar.figures.stalls} stall{'s' if bar.figures.stalls > 1 else ''}"
        axes.text(max(first.median, last.median), place, said, va="center", fontsize=7)
    labels = [bar.label if labelled else "" for bar in panel.bars]
    axes.set_yticks(range(len(panel.bars)), labels, fontsize=8)
    axes.set_ylim(len(panel.bars) - 0.5, -0.5)
    # Room for what stands behind the longest bar.
    axes.margins(x=0.7 if narrow else 0.25)
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=4 if narrow else 8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)

"""Draws what was measured: when each text was there, counted from the last word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hearth.bench.stt.report.figures import Figures, Report
from hearth.bench.stt.report.view import case_text, machine_text
from hearth.clients.stats import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#2a6f97", "#bc6c25", "#588157", "#9d4edd")
_WIDTH_INCHES = 10.0
_ROW_INCHES = 0.3
_HEAD_INCHES = 0.8


@dataclass(frozen=True, slots=True)
class Bar:
    """A median with its 95th percentile, in ms; None where nothing came."""

    label: str
    colour: str
    taken: Spread | None


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars with a scale of their own; `line_ms` is drawn through them."""

    title: str
    bars: tuple[Bar, ...]
    line_ms: float | None = None


def draw(report: Report, into: Path) -> None:
    """Write a PNG: for each kind of request a bar to the median and a line to the p95."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    drawn = panels(report)
    heights = [_HEAD_INCHES + _ROW_INCHES * len(panel.bars) for panel in drawn] or [_HEAD_INCHES]
    figure = Figure(figsize=(_WIDTH_INCHES, sum(heights) + 0.6), layout="constrained")
    figure.suptitle("Listening: medians in ms, thin lines to the 95th percentile")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    for row, panel in enumerate(drawn):
        _bars(figure.add_subplot(grid[row, 0]), panel)
    figure.text(0.01, -0.01, machine_text(report), fontsize=7, color="#555555", va="top")
    figure.savefig(into, dpi=130, bbox_inches="tight", format="png")


def panels(report: Report) -> list[Panel]:
    """Return what is drawn, from what a talker feels to what files take."""
    final = tuple(
        Bar(label, colour, f.final_ms)
        for label, colour, f in _each(report)
        if f.case.what != "file"
    )
    partial = tuple(
        Bar(label, colour, f.first_partial_ms)
        for label, colour, f in _each(report)
        if f.case.what == "live"
    )
    whole = tuple(
        Bar(label, colour, f.whole_ms)
        for label, colour, f in _each(report)
        if f.case.what == "file"
    )
    plain = [
        Bar(f"one plain call, {kind}", "#999999", taken)
        for kind, taken in (("3 s", report.bare.three_ms), ("30 s", report.bare.thirty_ms))
        if taken
    ]
    threshold = float(report.end_of_speech_ms)
    said = [
        Panel("end of speech to final text; dashed: the threshold", final, threshold),
        Panel("first sound to first partial text", partial),
        Panel("files, and plain calls beside them", (*whole, *plain)),
    ]
    return [panel for panel in said if any(bar.taken for bar in panel.bars)]


def _each(report: Report) -> list[tuple[str, str, Figures]]:
    """Return every kind of request of every server, those of one kind side by side."""
    cases = dict.fromkeys(f.case for server in report.servers for f in server.figures)
    several = len(report.servers) > 1
    return [
        (
            case_text(case) + (f" · {server.name}" if several else ""),
            _COLOURS[number % len(_COLOURS)],
            figures,
        )
        for case in cases
        for number, server in enumerate(report.servers)
        for figures in server.figures
        if figures.case == case
    ]


def _bars(axes: Axes, panel: Panel) -> None:
    for place, bar in enumerate(panel.bars):
        if bar.taken is None:
            axes.text(0, place, " nothing", va="center", fontsize=7, color="#777777")
            continue
        axes.barh(place, bar.taken.median, color=bar.colour, height=0.7)
        axes.hlines(place, bar.taken.median, bar.taken.p95, color="#333333", linewidth=1)
        said = f" {bar.taken.median:,.0f} (n={bar.taken.n})"
        axes.text(max(bar.taken.median, bar.taken.p95), place, said, va="center", fontsize=7)
    if panel.line_ms is not None:
        axes.axvline(panel.line_ms, color="#333333", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(panel.bars)), [bar.label for bar in panel.bars], fontsize=8)
    axes.set_ylim(len(panel.bars) - 0.5, -0.5)
    # Room for what stands behind the longest bar.
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)

"""Draws bars by matplotlib, which is an extra: requirements/charts.txt."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hearth.bench.report import Figures, ServerReport
from hearth.clients.stats import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSTALL = (
    "no chart without matplotlib: install it by `.hearth/uv/bin/python -m uv pip install --python "
    ".venv/bin/python --require-hashes -r requirements/charts.txt`"
)
_COLOURS = ("#2a6f97", "#bc6c25", "#588157", "#9d4edd")
_GREY = "#999999"
_WIDTH_INCHES, _ROW_INCHES, _HEAD_INCHES = 11.0, 0.26, 0.8
# A row of the figure has one, two or three panels.
_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from `start` to `end` in ms, pale before `start`; `line` continues it as a thin line.

    `end` is None where nothing was measured.
    """

    label: str
    end: float | None = None
    text: str = ""
    start: float = 0.0
    line: float | None = None
    colour: str = _GREY


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars on a scale of their own; a dashed line at `mark`."""

    title: str
    bars: tuple[Bar, ...]
    mark: float | None = None


def panel(
    title: str,
    servers: Sequence[ServerReport],
    cases: Sequence[Any],
    label: Callable[[Any, Figures | None], str],
    end: str,
    start: str = "",
    mark: float | None = None,
) -> Panel:
    """Return the medians of a field as bars, pale before that of `start`, or with its p95.

    The bars of all servers are side by side.
    """
    found = []
    for case in cases:
        for number, server in enumerate(servers):
            figures = next((f for f in server.figures if f.case == case), None)
            name = label(case, figures) + (f" · {server.name}" if len(servers) > 1 else "")
            ends = (figures[end], figures[start]) if figures else (None, None)
            bar = bar_of(name, *ends)
            if stalls := round(figures.totals.get("stalls", 0)) if figures else 0:
                bar = replace(bar, text=f"{bar.text}, {stalls} stall{'s' if stalls > 1 else ''}")
            found.append(replace(bar, colour=_COLOURS[number % len(_COLOURS)]))
    return Panel(title, tuple(found), mark)


def bar_of(label: str, end: Spread | None, start: Spread | None = None) -> Bar:
    """Return the bar of a spread; without one it is empty."""
    if not end:
        return Bar(label)
    if not start:
        return Bar(label, end.median, f"{end.median:,.0f} (n={end.n})", line=end.p95)
    return Bar(label, end.median, f"{start.median:,.0f} → {end.median:,.0f}", start=start.median)


def available() -> bool:
    """Return whether charts can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(title: str, foot: str, rows: Sequence[Sequence[Panel]], into: Path) -> None:
    """Write rows of panels as a PNG."""
    # An optional extra, and slow to import.
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    heights = [_HEAD_INCHES + _ROW_INCHES * len(row[0].bars) for row in rows] or [_HEAD_INCHES]
    figure = Figure(figsize=(_WIDTH_INCHES, sum(heights) + 0.6), layout="constrained")
    figure.suptitle(title)
    grid = figure.add_gridspec(len(heights), _COLUMNS, height_ratios=heights)
    for number, row in enumerate(rows):
        width = _COLUMNS // len(row)
        for column, panel in enumerate(row):
            axes = figure.add_subplot(grid[number, column * width : (column + 1) * width])
            _draw_panel(axes, panel, labelled=column == 0, narrow=len(row) > 1)
    figure.text(0.01, -0.01, foot, fontsize=7, color="#555555", va="top")
    figure.savefig(into, dpi=130, bbox_inches="tight", format="png")


def _draw_panel(axes: Axes, panel: Panel, *, labelled: bool, narrow: bool) -> None:
    for place, bar in enumerate(panel.bars):
        if bar.end is None:
            axes.text(0, place, " nothing", va="center", fontsize=7, color="#777777")
            continue
        if bar.start:
            axes.barh(place, bar.start, color=bar.colour, alpha=0.25, height=0.7)
        axes.barh(place, bar.end - bar.start, left=bar.start, color=bar.colour, height=0.7)
        if bar.line is not None:
            axes.hlines(place, bar.end, bar.line, color="#333333", linewidth=1)
        right = max(bar.start, bar.end, bar.line or 0)
        axes.text(right, place, f" {bar.text}", va="center", fontsize=7)
    if panel.mark is not None:
        axes.axvline(panel.mark, color="#333333", linewidth=0.8, linestyle="--")
    labels = [bar.label if labelled else "" for bar in panel.bars]
    axes.set_yticks(range(len(panel.bars)), labels, fontsize=8)
    axes.set_ylim(len(panel.bars) - 0.5, -0.5)
    # Room for the text behind the longest bar.
    axes.margins(x=0.7 if narrow else 0.25)
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=4 if narrow else 8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)

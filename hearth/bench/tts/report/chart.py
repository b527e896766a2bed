"""Draws what was measured: when each answer began, and when it ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hearth.bench.tts.report.figures import Figures, Report, ServerReport
from hearth.bench.tts.report.view import case_text, machine_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = tuple[int, ServerReport, Figures]
_COLOURS = ("#2a6f97", "#bc6c25", "#588157", "#9d4edd")
_ROW_INCHES = 0.34
_HEAD_INCHES = 1.1
_LONGER = ("paragraph", "long")


def draw(report: Report, into: Path) -> None:
    """Write a PNG: for each kind of request a bar from the first sound to the last byte."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    # A text of minutes would leave nothing to be seen of a phrase: each has its own scale.
    parts = [rows for rows in (_rows(report, False), _rows(report, True)) if rows]
    heights = [_HEAD_INCHES + _ROW_INCHES * len(rows) for rows in parts] or [_HEAD_INCHES]
    figure = Figure(figsize=(10, sum(heights) + 0.4), layout="constrained")
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    for axes, rows in zip(panels, parts, strict=False):
        _bars(report, axes, rows)
    panels[0].set_title("Speech: first sound and last byte, medians")
    panels[-1].set_xlabel("ms from the request: pale until the first sound, full until the last")
    figure.text(0.01, -0.02, machine_text(report), fontsize=7, color="#555555")
    figure.savefig(into, dpi=130, bbox_inches="tight", format="png")


def _bars(report: Report, axes: Axes, rows: Sequence[Row]) -> None:
    for place, (number, _, figures) in enumerate(rows):
        first, last = figures.ttfa_ms, figures.last_byte_ms
        if first is None or last is None:
            continue
        colour = _COLOURS[number % len(_COLOURS)]
        axes.barh(place, first.median, color=colour, alpha=0.25, height=0.6)
        axes.barh(place, last.median - first.median, left=first.median, color=colour, height=0.6)
        stalled = f", {figures.stalls} stalls" if figures.stalls else ""
        said = f" {first.median:.0f} → {last.median:.0f} ms{stalled}"
        axes.text(last.median, place, said, va="center", fontsize=8)
    labels = [_label(report, server, figures) for _, server, figures in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _rows(report: Report, longer: bool) -> list[Row]:
    """Return what one part draws, the same kind of request of all servers side by side."""
    cases = list(dict.fromkeys(f.case for server in report.servers for f in server.figures))
    return [
        (number, server, figures)
        for case in cases
        for number, server in enumerate(report.servers)
        for figures in server.figures
        if figures.case == case and figures.last_byte_ms and figures.ttfa_ms
        if (case.what in _LONGER) == longer
    ]


def _label(report: Report, server: ServerReport, figures: Figures) -> str:
    said = case_text(figures.case, figures.characters)
    return f"{said} · {server.name}" if len(report.servers) > 1 else said

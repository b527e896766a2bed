"""Renders reports: the same tables and lines for a terminal and as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.bench.report import Health, Ratio
from hearth.clients.stats import Spread

if TYPE_CHECKING:
    from hearth.bench.stt.figures import Report as SttReport
    from hearth.bench.tts.figures import Report as TtsReport

_COLOURS = {"reached": "green", "not reached": "red", "not measured": "yellow"}
_RATIO_COLUMNS = ("what", "target", "measured", "n", "")


@dataclass(frozen=True, slots=True)
class Section:
    """A table, lines below it, and errors; a Markdown page has the title as a heading."""

    title: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()
    errors: Sequence[str] = ()


def terminal(sections: Iterable[Section], foot: str = "") -> RenderableType:
    """Return sections as a person reads them in a terminal."""
    parts: list[RenderableType] = []
    for section in sections:
        if section.rows:
            grid = Table(*section.columns, title=section.title, box=None, pad_edge=False)
            for *cells, last in section.rows:
                style = _COLOURS.get(last.partition(":")[0], "")
                grid.add_row(*cells, Text(last, style=style))
            parts.append(grid)
        parts += [Text(line) for line in section.lines]
        parts += [Text(line, style="red") for line in section.errors]
        parts.append(Text())
    return Group(*parts, *([Text(foot, style="dim")] if foot else []))


def markdown(title: str, command: str, foot: str, sections: Iterable[Section]) -> str:
    """Return sections as a Markdown page, with the command that made it."""
    parts = [f"# {title}\n\n`{command}`\n\n{foot}"]
    for section in sections:
        parts += [f"## {section.title}"] if section.title else []
        if section.rows:
            lines = [section.columns, ["---"] * len(section.columns), *section.rows]
            rows = (f"| {' | '.join(cell(text) for text in line)} |" for line in lines)
            parts.append("\n".join(rows))
        parts += section.lines
        parts += [f"* {cell(line)}" for line in section.errors]
    return "\n\n".join(parts) + "\n"


def cell(text: str) -> str:
    """Return a text in one line, safe in a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def ratio_section(ratios: Sequence[Ratio], server: str) -> Section:
    """Return the ratios of one server."""
    rows = [
        (
            r.what,
            "none" if not r.target else f"≤ {_number(r, r.target)}",
            "-" if r.value is None else _number(r, r.value),
            str(r.n),
            r.verdict + (f": {r.reason}" if r.reason else ""),
        )
        for r in ratios
        if r.server == server
    ]
    return Section(f"{server}: targets", _RATIO_COLUMNS, rows)


def _number(ratio: Ratio, value: float) -> str:
    if not ratio.unit:
        return f"{value:.2f}" if ratio.target else f"{value:g}"
    return f"{value:,.0f} {ratio.unit}" if value >= 100 else f"{value:.1f} {ratio.unit}"


def machine_text(report: SttReport | TtsReport) -> str:
    """Return where and when a report was measured."""
    machine = report.machine
    return (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load before {machine.load:g}; {report.started}, {report.seconds:g} s"
        + (", quick" if report.quick else "")
    )


def health_text(health: Health) -> str:
    """Return the times of the health checks."""
    return (
        f"/health meanwhile {health.median_ms:.1f} ms, p99 {health.p99_ms:.1f} ms, "
        f"worst {health.worst_ms:.1f} ms (n={health.n}, {health.failed} without an answer)"
    )


def calls(n: int, failed: int) -> str:
    """Return how many calls succeeded."""
    return f"{n - failed} ({failed} failed)" if failed else str(n)


def middle(spread: Spread | None, digits: int = 0) -> str:
    """Return a median."""
    return f"{spread.median:,.{digits}f}" if spread else "-"


def p95(spread: Spread | None, digits: int = 0) -> str:
    """Return a 95th percentile."""
    return f"{spread.p95:,.{digits}f}" if spread else "-"


def stopped_section(stopped: str) -> list[Section]:
    """Return why a run ended early, if it did."""
    return [Section(errors=[stopped])] if stopped else []

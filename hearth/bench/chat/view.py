"""Shows what the chat costs to a person."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.bench.chat.bench import ChatReport
from hearth.bench.llm import WayFigures

_STYLES = {"reached": "green", "not reached": "red", "not measured": "yellow"}


def chat_view(report: ChatReport) -> RenderableType:
    """Return the figures of both ways, what the chat adds, what it takes, and what failed."""
    ways = Table(
        *("asked", "n", "failed", "first word ms", "p95", "whole ms", "p95"),
        title=f"{report.model}, {_crowd(report)}, medians",
        box=None,
        pad_edge=False,
    )
    for way in (report.direct, report.chat):
        ways.add_row(*_row(way))
    asked = Table("what", "at most", "measured", "n", "verdict", box=None, pad_edge=False)
    for row in report.ratios:
        value = row.why if row.value is None else f"{row.value:.1f} {row.unit}"
        verdict = Text(row.verdict, _STYLES[row.verdict])
        asked.add_row(row.what, f"{row.reach:g} {row.unit}", value, str(row.n), verdict)
    below = [Text(added_text(report)), *_memory(report)]
    errors = dict.fromkeys(report.direct.errors + report.chat.errors)
    below += [Text(line, style="red") for line in [report.stopped, *errors] if line]
    return Group(ways, "", asked, "", *below)


def added_text(report: ChatReport) -> str:
    """Say what the chat adds to the first word."""
    added = report.added_first_ms
    if added is None:
        return "What the chat adds is not known: no pair of answers came."
    return (
        f"The chat adds {added.median:.1f} ms to the median first word "
        f"(95 %: {added.low:.1f} to {added.high:.1f} ms, {added.pairs} pairs)."
    )


def _crowd(report: ChatReport) -> str:
    if not report.apart_s:
        return f"{report.users} in the same instant"
    return f"{report.users} who begin within {report.apart_s:g} s"


def _memory(report: ChatReport) -> list[Text]:
    size = report.service.memory_bytes
    return [Text(f"Its process holds {size / 2**20:.0f} MiB.")] if size else []


def _row(way: WayFigures) -> list[str]:
    cells = []
    for seen in (way.first_ms, way.total_ms):
        cells += [f"{seen.median:.1f}", f"{seen.p95:.1f}"] if seen else ["-", "-"]
    return [way.way, str(way.calls - way.failed), str(way.failed) if way.failed else "", *cells]

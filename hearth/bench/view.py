"""Renders reports: the same tables and lines for a terminal and as a Markdown page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.bench.report import BaselineFigures, BenchMachine, Figures, Ratio, Report, ServerReport

_COLOURS = {"reached": "green", "not reached": "red", "not measured": "yellow"}
Cell = Callable[[Figures], str]
Columns = Sequence[tuple[str, Cell]]
"""Headings with what each returns of some figures."""
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
            rows = (f"| {' | '.join(escaped(text) for text in line)} |" for line in lines)
            parts.append("\n".join(rows))
        parts += section.lines
        parts += [f"* {escaped(line)}" for line in section.errors]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
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


class Measured(Protocol):
    """A report of any kind."""

    @property
    def machine(self) -> BenchMachine:
        """The machine that ran it."""

    @property
    def started(self) -> str:
        """An ISO time."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    @property
    def quick(self) -> bool:
        """Whether it measured little."""


def machine_text(report: Measured) -> str:
    """Return where and when a report was measured."""
    machine = report.machine
    return (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load before {machine.load:g}; {report.started}, {report.seconds:g} s"
        + (", quick" if report.quick else "")
    )


def sections_of(report: Report, of_server: Callable[[Any], Sequence[Section]]) -> list[Section]:
    """Return the ratios, the baseline, every server's sections, and why the run ended early."""
    found = [ratio_section(report.ratios, server.name) for server in report.servers]
    found.append(Section(lines=[baseline_text(report.baseline)]))
    found += [section for server in report.servers for section in of_server(server)]
    return found + ([Section(errors=[report.stopped])] if report.stopped else [])


def baseline_text(baseline: BaselineFigures) -> str:
    """Return the times of the baseline, or why there are none."""
    if baseline.reason:
        return f"The baseline is not measured: {baseline.reason}"
    times = (f"{what} {ms.median:,.0f} ms (n={ms.n})" for what, ms in baseline.times_ms.items())
    return f"Baseline, medians: {', '.join(times)}. {baseline.how}".rstrip()


def errors_of(stopped: str, figures: Iterable[Figures], *more: str) -> list[str]:
    """Return why a server or a run was stopped, and all errors, each once."""
    errors = (error for each in figures for error in each.errors)
    return [line for line in dict.fromkeys([stopped, *errors, *more]) if line]


def server_section(
    server: ServerReport,
    programs: Sequence[str],
    lines: Sequence[str] = (),
    errors: Sequence[str] = (),
) -> Section:
    """Return where a server is, what it runs, what that takes, and its errors."""
    threads = f"{server.threads} threads" if server.threads else ""
    memory = f"at most {server.memory_bytes / 2**20:.0f} MiB" if server.memory_bytes else ""
    found = ["; ".join(filter(None, [server.url, *programs, threads, memory])), *lines]
    if health := server.health:
        found.append(
            f"/health meanwhile {health.median_ms:.1f} ms, p99 {health.p99_ms:.1f} ms, "
            f"worst {health.worst_ms:.1f} ms (n={health.n}, {health.failed} without an answer)"
        )
    return Section(lines=found, errors=errors_of(server.stopped, server.figures, *errors))


def table(
    title: str, columns: Columns, figures: Iterable[Figures], name: Callable[[Any, Figures], str]
) -> Section:
    """Return a table of figures by their columns, beside their names and numbers of calls."""
    rows = [
        (name(each.case, each), calls(each), *(cell(each) for _, cell in columns))
        for each in figures
    ]
    return Section(title, ("", "n", *(heading for heading, _ in columns)), rows)


def calls(figures: Figures) -> str:
    """Return how many calls succeeded."""
    n = figures.calls - figures.failed
    return f"{n} ({figures.failed} failed)" if figures.failed else str(n)


def middle(name: str, digits: int = 0) -> Cell:
    """Return the cell of a field's median."""
    return lambda figures: f"{each.median:,.{digits}f}" if (each := figures[name]) else "-"


def p95(name: str, digits: int = 0) -> Cell:
    """Return the cell of a field's 95th percentile."""
    return lambda figures: f"{each.p95:,.{digits}f}" if (each := figures[name]) else "-"

"""Shows to a person how soon a text is there."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.bench.served.ratios import Ratio
from hearth.bench.stt.report.figures import Case, Figures, Report, ServerReport
from hearth.clients.stats import Spread

COLOURS = {"reached": "green", "not reached": "red", "not measured": "yellow"}
RATIO_COLUMNS = ("what", "reach", "measured", "n", "")
LIVE_COLUMNS = (
    *("spoken", "n", "end of speech → final ms", "p95", "end noticed ms"),
    *("start noticed ms", "first partial ms", "partials", "finals"),
)
FILE_COLUMNS = ("file", "n", "whole ms", "p95", "RTF")


def stt_view(report: Report) -> RenderableType:
    """Return the ratios, the figures of every server, and what failed."""
    parts: list[RenderableType] = []
    for server in report.servers:
        rows = ratio_rows(report, server)
        parts += [_grid(RATIO_COLUMNS, rows, f"{server.name}: to reach"), Text()] if rows else []
    parts += [Text(bare_text(report)), Text()]
    for server in report.servers:
        if rows := live_rows(server):
            parts += [_grid(LIVE_COLUMNS, rows, f"{server.name}: talking, medians"), Text()]
        if rows := file_rows(server):
            parts += [_grid(FILE_COLUMNS, rows, f"{server.name}: files, medians"), Text()]
        parts += [Text(line) for line in said_of(server)]
        parts += [Text(f"{server.name}: {line}", style="red") for line in errors_of(server)]
        parts += [Text()]
    parts.append(Text(machine_text(report), style="dim"))
    if report.stopped:
        parts.append(Text(report.stopped, style="red"))
    return Group(*parts)


def ratio_rows(report: Report, server: ServerReport) -> list[tuple[str, ...]]:
    """Return the ratios of one server as text, in the order of `RATIO_COLUMNS`."""
    return [
        (
            r.what,
            f"≤ {_number(r, r.reach)}",
            "-" if r.value is None else _number(r, r.value),
            str(r.n),
            r.verdict + (f": {r.why}" if r.why else ""),
        )
        for r in report.ratios
        if r.server == server.name
    ]


def live_rows(server: ServerReport) -> list[tuple[str, ...]]:
    """Return what came through the socket as text, in the order of `LIVE_COLUMNS`."""
    return [
        (
            *(case_text(f.case), _calls(f), _middle(f.final_ms), _p95(f.final_ms)),
            *(_middle(f.ended_ms), _middle(f.started_ms)),
            *(_middle(f.first_partial_ms), _middle(f.partials), _middle(f.finals, 1)),
        )
        for f in server.figures
        if f.case.what != "file"
    ]


def file_rows(server: ServerReport) -> list[tuple[str, ...]]:
    """Return what came of files as text, in the order of `FILE_COLUMNS`."""
    return [
        (
            *(f"{f.case.seconds} s", _calls(f), _middle(f.whole_ms), _p95(f.whole_ms)),
            _middle(f.rtf, 3),
        )
        for f in server.figures
        if f.case.what == "file"
    ]


def case_text(case: Case) -> str:
    """Say what was done."""
    said = f"{case.seconds} s"
    if case.what == "crowd":
        return f"{said}, {case.streams} at once"
    return said if case.what == "live" else f"{said}, {case.what.removeprefix('live ')}"


def bare_text(report: Report) -> str:
    """Say what a plain call takes."""
    bare = report.bare
    if bare.reason:
        return f"A plain call is not measured: {bare.reason}"
    said = [
        f"{what}: {taken.median:,.0f} ms (n={taken.n})"
        for what, taken in (
            ("of 3 s", bare.three_ms),
            ("of 30 s", bare.thirty_ms),
            ("four of 3 s one after the other", bare.four_ms),
        )
        if taken
    ]
    return f"A plain faster_whisper call {', '.join(said)}. {bare.how}".rstrip()


def said_of(server: ServerReport) -> list[str]:
    """Say what a server says of itself, and what else was seen of it."""
    head = [server.url, server.model + (f" and {server.draft}" if server.draft else "")]
    head += [f"{server.compute_type} on {server.device}"] if server.device else []
    head += [f"{server.threads} threads"] if server.threads else []
    head += [f"at most {server.memory_bytes / 2**20:.0f} MiB"] if server.memory_bytes else []
    return ["; ".join(head), *_more(server)]


def _more(server: ServerReport) -> list[str]:
    lines = [f"chosen: {server.choice_reason}"] if server.choice_reason else []
    if not server.socket:
        lines.append("It has no live socket: only files were asked of it.")
    if health := server.health:
        lines.append(
            f"/health meanwhile {health.median_ms:.1f} ms, p99 {health.p99_ms:.1f} ms, "
            f"worst {health.worst_ms:.1f} ms (n={health.n}, {health.failed} without an answer)"
        )
    if server.vad and server.vad.outside:
        said = server.vad.said
        alone = f"; the detector alone, as it says, {said:.2f} ms" if said else ""
        took = server.vad.outside.median
        lines.append(f"A second of a quiet room took {took:.1f} ms of the clock{alone}")
    if words := server.words:
        rate = f"{words.rate:.1%}" if words.rate is not None else f"not measured ({words.why})"
        lines.append(f"Word error rate: {rate}, {words.words} words in {words.texts} recordings")
    if loop := server.loop:
        most = f", at most {loop.most_bytes / 2**20:.0f} MiB" if loop.most_bytes else ""
        lines.append(f"{loop.audio_s / 60:.0f} minutes of speech in {loop.seconds:.0f} s{most}")
    return lines


def errors_of(server: ServerReport) -> list[str]:
    """Return what failed, each kind once."""
    errors = [error for figures in server.figures for error in figures.errors]
    errors += server.loop.errors if server.loop else ()
    errors += [server.words.why] if server.words and server.words.failed else []
    return [line for line in dict.fromkeys([server.stopped, *errors]) if line]


def machine_text(report: Report) -> str:
    """Say where and when it was measured."""
    machine = report.machine
    return (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load before {machine.load:g}; {report.started}, {report.seconds:g} s"
        f"; threshold {report.end_of_speech_ms} ms" + (", quick" if report.quick else "")
    )


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Table:
    grid = Table(*columns, title=title, box=None, pad_edge=False)
    for *cells, last in rows:
        grid.add_row(*cells, Text(last, style=COLOURS.get(last.partition(":")[0], "")))
    return grid


def _number(ratio: Ratio, value: float) -> str:
    if not ratio.unit:
        return f"{value:.2f}"
    return f"{value:,.0f} {ratio.unit}" if value >= 100 else f"{value:.1f} {ratio.unit}"


def _calls(figures: Figures) -> str:
    good = figures.calls - figures.failed
    return f"{good} ({figures.failed} failed)" if figures.failed else str(good)


def _middle(spread: Spread | None, digits: int = 0) -> str:
    return f"{spread.median:,.{digits}f}" if spread else "-"


def _p95(spread: Spread | None) -> str:
    return f"{spread.p95:,.0f}" if spread else "-"

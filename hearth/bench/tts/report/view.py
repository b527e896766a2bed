"""Shows to a person how soon speech starts."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.bench.served.ratios import Ratio
from hearth.bench.tts.report.beside import beside_columns, beside_rows
from hearth.bench.tts.report.figures import Case, Figures, Report, ServerReport
from hearth.clients.stats import Spread

COLOURS = {"reached": "green", "not reached": "red", "not measured": "yellow"}
RATIO_COLUMNS = ("what", "reach", "measured", "n", "")
FIGURE_COLUMNS = (
    *("spoken", "n", "TTFA ms", "p95", "last byte ms", "gap ms", "chunks", "stalls"),
    *("RTF", "characters/s"),
)


def tts_view(report: Report) -> RenderableType:
    """Return the ratios, the figures of every server, and what failed."""
    parts: list[RenderableType] = _beside_table(report)
    for server in report.servers:
        parts += [*_ratio_table(report, server), Text()]
    parts += [Text(bare_text(report)), Text()]
    for server in report.servers:
        parts += [_figure_table(server), *_below(server), Text()]
    parts.append(Text(machine_text(report), style="dim"))
    if report.stopped:
        parts.append(Text(report.stopped, style="red"))
    return Group(*parts)


def ratio_rows(report: Report, server: ServerReport) -> list[tuple[str, ...]]:
    """Return the ratios of one server as text, in the order of `RATIO_COLUMNS`."""
    return [
        (
            r.what,
            reach_text(r),
            value_text(r),
            str(r.n),
            r.verdict + (f": {r.why}" if r.why else ""),
        )
        for r in report.ratios
        if r.server == server.name
    ]


def figure_rows(server: ServerReport) -> list[tuple[str, ...]]:
    """Return the figures of one server as text, in the order of `FIGURE_COLUMNS`."""
    return [
        (
            *(case_text(f.case, f.characters), _calls(f)),
            *(_middle(f.ttfa_ms), _p95(f.ttfa_ms), _middle(f.last_byte_ms), _middle(f.gap_ms)),
            *(_middle(f.chunks), str(f.stalls), _middle(f.rtf, 2), _middle(f.characters_per_s, 1)),
        )
        for f in server.figures
    ]


def case_text(case: Case, characters: int) -> str:
    """Say what was asked."""
    what = f"{characters:,} characters" if case.what == "long" else case.what
    said = [what, case.format, case.voice]
    said += [] if case.streamed else ["not streamed"]
    said += ["again"] if case.repeated else []
    said += [f"{case.clients} at once"] if case.clients > 1 else []
    return ", ".join(said)


def reach_text(ratio: Ratio) -> str:
    """Say what is to be reached."""
    if ratio.reach == 0:
        return "none"
    return f"≤ {ratio.reach:g} {ratio.unit}" if ratio.unit else f"≤ {ratio.reach:.2f}"


def value_text(ratio: Ratio) -> str:
    """Say what was reached."""
    if ratio.value is None:
        return "-"
    if ratio.unit:
        return f"{ratio.value:.1f} {ratio.unit}"
    return f"{ratio.value:.2f}" if ratio.reach else f"{ratio.value:g}"


def verdict_text(ratio: Ratio) -> str:
    """Say whether it was reached, or why that is not known."""
    return f"{ratio.verdict}: {ratio.why}" if ratio.why else ratio.verdict


def bare_text(report: Report) -> str:
    """Say what one bare inference takes."""
    bare = report.bare
    if bare.whole_ms is None:
        return f"One bare inference is not measured: {bare.reason}"
    said = f"One bare inference of the whole phrase: {bare.whole_ms.median:.0f} ms"
    if bare.first_piece_ms is not None:
        said += (
            f"; of its first piece, as {bare.first_piece!r}: {bare.first_piece_ms.median:.0f} ms"
        )
    return f"{said} (medians of {bare.whole_ms.n}). {bare.how}".rstrip()


def machine_text(report: Report) -> str:
    """Say where and when it was measured."""
    machine = report.machine
    return (
        f"{machine.cores} cores of {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load before {machine.load:g}; {report.started}, {report.seconds:g} s"
        + (", quick" if report.quick else "")
    )


def server_text(server: ServerReport) -> str:
    """Say what a server says of itself, and what of its health and memory was seen."""
    said = [server.url]
    said += [f"{server.engine} on {server.provider}, {server.model}"] if server.engine else []
    said += [f"{server.threads} threads"] if server.threads else []
    said += [f"at most {server.memory_bytes / 2**20:.0f} MiB"] if server.memory_bytes else []
    if server.health:
        health = server.health
        said.append(
            f"/health meanwhile {health.median_ms:.1f} ms, p99 {health.p99_ms:.1f} ms, "
            f"worst {health.worst_ms:.1f} ms (n={health.n}, {health.failed} without an answer)"
        )
    return "; ".join(said)


def errors_of(server: ServerReport) -> list[str]:
    """Return what failed, each kind once."""
    errors = [error for figures in server.figures for error in figures.errors]
    return [line for line in dict.fromkeys([server.stopped, *errors]) if line]


def _beside_table(report: Report) -> list[RenderableType]:
    rows = beside_rows(report)
    grid = Table(*beside_columns(report), title="side by side", box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*row)
    return [grid, Text()] if rows else []


def _ratio_table(report: Report, server: ServerReport) -> list[RenderableType]:
    grid = Table(*RATIO_COLUMNS, title=f"{server.name}: to reach", box=None, pad_edge=False)
    rows = ratio_rows(report, server)
    for *cells, verdict in rows:
        grid.add_row(*cells, Text(verdict, style=COLOURS[verdict.partition(":")[0]]))
    return [grid] if rows else []


def _figure_table(server: ServerReport) -> Table:
    grid = Table(*FIGURE_COLUMNS, title=f"{server.name}: medians", box=None, pad_edge=False)
    for row in figure_rows(server):
        grid.add_row(*row)
    return grid


def _below(server: ServerReport) -> list[Text]:
    return [
        Text(server_text(server)),
        *(Text(f"{server.name}: {line}", style="red") for line in errors_of(server)),
    ]


def _calls(figures: Figures) -> str:
    good = figures.calls - figures.failed
    return f"{good} ({figures.failed} failed)" if figures.failed else str(good)


def _middle(spread: Spread | None, digits: int = 0) -> str:
    return f"{spread.median:.{digits}f}" if spread else "-"


def _p95(spread: Spread | None) -> str:
    return f"{spread.p95:.0f}" if spread else "-"

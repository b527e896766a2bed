"""Says of several servers, each in a column of its own, what tells them apart."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.bench.tts.report.figures import Figures, Report, ServerReport


def beside_columns(report: Report) -> tuple[str, ...]:
    """Return what stands above the rows: the servers' names."""
    return ("medians", *(server.name for server in report.servers))


def beside_rows(report: Report) -> list[tuple[str, ...]]:
    """Return a row for each figure with a cell for each server; none where one was measured."""
    if len(report.servers) == 1:
        return []
    columns = [dict(_column(server)) for server in report.servers]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(column.get(name, "-") for column in columns)) for name in names]


def _column(server: ServerReport) -> Iterator[tuple[str, str]]:
    """Yield the figures of one server, in the order in which a listener meets them."""
    for figures in server.figures:
        case = figures.case
        if case.what == "phrase" and not case.repeated:
            yield from _phrase(figures)
    for figures in server.figures:
        if figures.case.what in ("paragraph", "long") and figures.ttfa_ms:
            # The words differ, and their number by one or two.
            what = "paragraph" if figures.case.what == "paragraph" else "long text"
            yield f"{what}: first sound", f"{figures.ttfa_ms.median:,.0f} ms"
            yield f"{what}: stalls", f"{figures.stalls} in {figures.ttfa_ms.n}"
    if server.health:
        yield "/health while it speaks, median", f"{server.health.median_ms:,.0f} ms"
        yield "/health while it speaks, p99", f"{server.health.p99_ms:,.0f} ms"


def _phrase(figures: Figures) -> Iterator[tuple[str, str]]:
    clients = figures.case.clients
    what = "phrase" if clients == 1 else f"{clients} phrases at once"
    if figures.ttfa_ms and figures.last_byte_ms:
        yield f"{what}: first sound", f"{figures.ttfa_ms.median:,.0f} ms"
        yield f"{what}: last byte", f"{figures.last_byte_ms.median:,.0f} ms"
    # What was cut into bursts is heard late, however fast it was made.
    if clients == 1 and figures.early:
        yield f"{what}: part of that time left at its first byte", f"{figures.early.median:.0%}"
    if clients == 1 and figures.rtf:
        yield f"{what}: work for a second of sound", f"{figures.rtf.median:.2f} s"

"""Tables and bars of a TTS report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hearth.bench.chart import Bar, Panel, bars
from hearth.bench.tts.figures import (
    LONGER,
    Case,
    TtsFigures,
    TtsReport,
    TtsServerReport,
    case_text,
)
from hearth.bench.view import (
    Section,
    calls,
    errors_of,
    health_text,
    middle,
    p95,
    sections_of,
    server_text,
)

TITLE = "Speech, measured"
CHART = "Speech: pale until the first sound, full until the last byte; medians in ms"
_COLUMNS = (
    *("spoken", "n", "TTFA ms", "p95", "last byte ms", "gap ms", "chunks", "stalls"),
    *("RTF", "characters/s"),
)
# Voices side by side.
_BESIDE = 3


def sections(report: TtsReport) -> list[Section]:
    """Return the comparison, the ratios, the figures of every server, and the errors."""
    rows, names = comparison(report), [server.name for server in report.servers]
    found = [Section("Side by side", ("medians", *names), rows)] if rows else []
    return found + sections_of(report, baseline_text(report), _server_sections)


def _server_sections(server: TtsServerReport) -> list[Section]:
    rows = [
        (
            *(case_text(f.case, f.characters), calls(f)),
            *(middle(f.ttfa_ms), p95(f.ttfa_ms), middle(f.last_byte_ms), middle(f.gap_ms)),
            *(middle(f.chunks), str(f.stalls), middle(f.rtf, 2), middle(f.characters_per_s, 1)),
        )
        for f in server.figures
    ]
    program = f"{server.engine} on {server.provider}, {server.model}" if server.engine else ""
    line = "; ".join(filter(None, [server_text(server, program), *health_text(server.health)]))
    errors = errors_of(server.stopped, server.figures)
    return [Section(f"{server.name}: medians", _COLUMNS, rows, [line], errors)]


def baseline_text(report: TtsReport) -> str:
    """Return the times of the baseline, or why there are none."""
    baseline = report.baseline
    if baseline.whole_ms is None:
        return f"The baseline is not measured: {baseline.reason}"
    text = f"Baseline, one inference of the whole phrase: {baseline.whole_ms.median:.0f} ms"
    if first := baseline.first_piece_ms:
        text += f"; of its first piece, as {baseline.first_piece!r}: {first.median:.0f} ms"
    return f"{text} (medians of {baseline.whole_ms.n}). {baseline.how}".rstrip()


def comparison(report: TtsReport) -> list[tuple[str, ...]]:
    """Return a row for each figure with a cell for each of several servers."""
    if len(report.servers) == 1:
        return []
    columns = [dict(_column(server)) for server in report.servers]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(column.get(name, "-") for column in columns)) for name in names]


def _column(server: TtsServerReport) -> Iterator[tuple[str, str]]:
    for figures in server.figures:
        if figures.case.what == "phrase" and not figures.case.repeated:
            yield from _phrase(figures)
    for figures in server.figures:
        if figures.case.what in LONGER and figures.ttfa_ms:
            # The exact length differs by a character or two.
            what = "paragraph" if figures.case.what == "paragraph" else "long text"
            yield f"{what}: first sound", f"{figures.ttfa_ms.median:,.0f} ms"
            yield f"{what}: stalls", f"{figures.stalls} in {figures.ttfa_ms.n}"
    if server.health:
        yield "/health while it speaks, median", f"{server.health.median_ms:,.0f} ms"
        yield "/health while it speaks, p99", f"{server.health.p99_ms:,.0f} ms"


def _phrase(figures: TtsFigures) -> Iterator[tuple[str, str]]:
    clients = figures.case.clients
    what = "phrase" if clients == 1 else f"{clients} phrases at once"
    if figures.ttfa_ms and figures.last_byte_ms:
        yield f"{what}: first sound", f"{figures.ttfa_ms.median:,.0f} ms"
        yield f"{what}: last byte", f"{figures.last_byte_ms.median:,.0f} ms"
    # An answer in one burst is audible late, however fast it was made.
    if clients == 1 and figures.early:
        yield f"{what}: share of that time left at the first byte", f"{figures.early.median:.0%}"
    if clients == 1 and figures.rtf:
        yield f"{what}: work per second of sound", f"{figures.rtf.median:.2f} s"


def panels(report: TtsReport) -> list[list[Panel]]:
    """Return the rows of the chart; long texts have a scale of their own."""
    cases = list(dict.fromkeys(f.case for server in report.servers for f in server.figures))
    cells = [case for case in cases if case.what == "sample"]
    short = [case for case in cases if case.what not in (*LONGER, "sample")]
    parts = (
        ("one at a time", [case for case in short if case.clients == 1]),
        ("several at once", [case for case in short if case.clients > 1]),
        ("longer texts", [case for case in cases if case.what in LONGER]),
    )
    rows = [[Panel(title, _bars(report, some, case_text))] for title, some in parts if some]
    # Each voice has a column of its own: the formats of all voices would make one long list.
    forms = list(dict.fromkeys((case.format, case.streamed) for case in cells))
    each = [
        Panel(
            f"every format, {voice}",
            _bars(report, [Case("sample", f, voice, on) for f, on in forms], _form),
        )
        for voice in dict.fromkeys(case.voice for case in cells)
    ]
    return rows + [each[n : n + _BESIDE] for n in range(0, len(each), _BESIDE)]


def _form(case: Case, characters: int) -> str:
    return case.format if case.streamed else f"{case.format}, not streamed"


def _bars(
    report: TtsReport, cases: Sequence[Case], label: Callable[[Case, int], str]
) -> tuple[Bar, ...]:
    def draw(case: Case, figures: TtsFigures | None) -> Bar:
        name = label(case, figures.characters if figures else 0)
        if not figures or not figures.ttfa_ms or not figures.last_byte_ms:
            return Bar(name)
        first, last = figures.ttfa_ms.median, figures.last_byte_ms.median
        text = f"{first:,.0f} → {last:,.0f}"
        if figures.stalls:
            text += f", {figures.stalls} stall{'s' if figures.stalls > 1 else ''}"
        return Bar(name, last, text, start=first)

    return bars(report.servers, cases, draw)

"""Tables and bars of a TTS report."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.bench.chart import Panel, panel
from hearth.bench.report import Figures, ServerReport
from hearth.bench.tts.answer import LONGER, TtsCase
from hearth.bench.tts.run import TtsReport
from hearth.bench.view import Section, middle, p95, sections_of, server_section, table

TITLE = "Speech, measured"
CHART = "Speech: pale until the first sound, full until the last byte; medians in ms"
_COLUMNS = (
    ("TTFA ms", middle("ttfa_ms")),
    ("p95", p95("ttfa_ms")),
    ("held back ms", middle("held_ms")),
    ("last byte ms", middle("last_byte_ms")),
    ("gap ms", middle("gap_ms")),
    ("chunks", middle("chunks")),
    ("stalls", lambda figures: f"{figures.totals['stalls']:.0f}"),
    ("RTF", middle("rtf", 2)),
    ("characters/s", middle("characters_per_s", 1)),
)
_COMPARED = (
    ("first sound", middle("ttfa_ms"), " ms"),
    ("held back", middle("held_ms"), " ms"),
    ("last byte", middle("last_byte_ms"), " ms"),
    # An answer in one burst is audible late, however fast it was made.
    (
        "share of that time left at the first byte",
        lambda figures: f"{early.median:.0%}" if (early := figures["early"]) else "-",
        "",
    ),
    ("stalls", lambda figures: f"{figures.totals['stalls']:.0f}", ""),
    ("work per second of sound", middle("rtf", 2), " s"),
)
# Voices side by side.
_BESIDE = 3


def sections(report: TtsReport) -> list[Section]:
    """Return the comparison, the ratios, the figures of every server, and the errors."""
    rows, names = comparison(report), [server.name for server in report.servers]
    found = [Section("Side by side", ("medians", *names), rows)] if rows else []
    return found + sections_of(report, _server_sections) + _sounds(report)


def _sounds(report: TtsReport) -> list[Section]:
    """Return the same words in every format and voice, and the memory of the cards."""
    rows = [
        (
            *(one.server, one.format, one.voice, f"{one.size_bytes:,}"),
            f"{one.audio_s:.2f}" if one.audio_s else "-",
            one.file or one.error or "-",
            one.sha256[:16],
        )
        for one in report.sounds
    ]
    heads = ("server", "format", "voice", "bytes", "seconds", "file", "sha256")
    found = [Section("The same words in every format and voice", heads, rows)] if rows else []
    used = ", ".join(f"{card} {size / 2**20:,.0f} MiB" for card, size in report.cards_bytes.items())
    return found + (
        [Section(lines=[f"Memory of cards in use, by all programs: {used}."])] if used else []
    )


def _server_sections(server: ServerReport) -> list[Section]:
    found = table(f"{server.name}: medians", _COLUMNS, server.figures, _name)
    engine, provider = server.status.get("engine"), server.status.get("provider")
    program = f"{engine} on {provider}, {server.model}" if engine else ""
    return [found, server_section(server, [program])]


def comparison(report: TtsReport) -> list[tuple[str, ...]]:
    """Return a row for each figure with a cell for each of several servers."""
    if len(report.servers) == 1:
        return []
    columns = [dict(_column(server)) for server in report.servers]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(column.get(name, "-") for column in columns)) for name in names]


def _column(server: ServerReport) -> Iterator[tuple[str, str]]:
    for figures in server.figures:
        case = figures.case
        if case.what in ("phrase", *LONGER) and not case.repeated and figures["ttfa_ms"]:
            # The exact length of a long text differs by a character or two.
            what = {"long": "long text"}.get(case.what, case.what)
            what = what if case.clients == 1 else f"{case.clients} phrases at once"
            yield from ((f"{what}: {name}", cell(figures) + unit) for name, cell, unit in _COMPARED)
    if server.health:
        yield "/health while it speaks, median", f"{server.health.median_ms:,.0f} ms"
        yield "/health while it speaks, p99", f"{server.health.p99_ms:,.0f} ms"


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
    times = ("last_byte_ms", "ttfa_ms")
    rows = [[panel(title, report.servers, some, _name, *times)] for title, some in parts if some]
    # Each voice has a column of its own: the formats of all voices would make one long list.
    forms = list(dict.fromkeys((case.format, case.streamed) for case in cells))
    each = [
        panel(
            f"every format, {voice}",
            report.servers,
            [TtsCase("sample", form, voice, streamed) for form, streamed in forms],
            lambda case, _: case.format if case.streamed else f"{case.format}, not streamed",
            *times,
        )
        for voice in dict.fromkeys(case.voice for case in cells)
    ]
    return rows + [each[n : n + _BESIDE] for n in range(0, len(each), _BESIDE)]


def _name(case: TtsCase, figures: Figures | None) -> str:
    length = figures["characters"] if figures and case.what == "long" else None
    words = [f"{length.median:,.0f} characters" if length else case.what, case.format, case.voice]
    words += [] if case.streamed else ["not streamed"]
    words += ["again"] if case.repeated else []
    return ", ".join(words + ([f"{case.clients} at once"] if case.clients > 1 else []))

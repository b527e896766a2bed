"""Tables and bars of an STT report."""

from __future__ import annotations

from hearth.bench.report.chart import COLOURS, GREY, Bar, Panel
from hearth.bench.report.view import (
    Section,
    calls,
    health_text,
    middle,
    p95,
    ratio_section,
    stopped_section,
)
from hearth.bench.stt.figures import Case, Figures, Report, ServerReport
from hearth.clients.stats import Spread

TITLE = "Transcription, measured"
CHART = "Transcription: medians in ms, thin lines to the 95th percentile"
_LIVE_COLUMNS = (
    *("spoken", "n", "end of speech → final ms", "p95", "end noticed ms"),
    *("start noticed ms", "first partial ms", "partials", "finals"),
)
_FILE_COLUMNS = ("file", "n", "whole ms", "p95", "RTF")


def sections(report: Report) -> list[Section]:
    """Return the ratios, the figures of every server, and the errors."""
    found = [ratio_section(report.ratios, server.name) for server in report.servers]
    found.append(Section(lines=[baseline_text(report)]))
    for server in report.servers:
        errors = [error for figures in server.figures for error in figures.errors]
        errors += server.loop.errors if server.loop else ()
        errors += [server.words.reason] if server.words and server.words.failed else []
        errors = [line for line in dict.fromkeys([server.stopped, *errors]) if line]
        found += [
            Section(f"{server.name}: live, medians", _LIVE_COLUMNS, _live_rows(server)),
            Section(f"{server.name}: files, medians", _FILE_COLUMNS, _file_rows(server)),
        ]
        found = [section for section in found if section.rows or section.lines]
        found.append(Section(lines=_server_lines(server), errors=errors))
    return found + stopped_section(report.stopped)


def _live_rows(server: ServerReport) -> list[tuple[str, ...]]:
    return [
        (
            *(case_text(f.case), calls(f.calls, f.failed), middle(f.final_ms), p95(f.final_ms)),
            *(middle(f.ended_ms), middle(f.started_ms)),
            *(middle(f.first_partial_ms), middle(f.partials), middle(f.finals, 1)),
        )
        for f in server.figures
        if f.case.what != "file"
    ]


def _file_rows(server: ServerReport) -> list[tuple[str, ...]]:
    return [
        (
            *(f"{f.case.seconds} s", calls(f.calls, f.failed)),
            *(middle(f.whole_ms), p95(f.whole_ms), middle(f.rtf, 3)),
        )
        for f in server.figures
        if f.case.what == "file"
    ]


def case_text(case: Case) -> str:
    """Return the name of a kind of request."""
    length = f"{case.seconds} s"
    if case.what == "crowd":
        return f"{length}, {case.streams} at once"
    return length if case.what == "live" else f"{length}, {case.what.removeprefix('live ')}"


def baseline_text(report: Report) -> str:
    """Return the times of the baseline, or why there are none."""
    baseline = report.baseline
    if baseline.reason:
        return f"The baseline is not measured: {baseline.reason}"
    times = [
        f"{what}: {spread.median:,.0f} ms (n={spread.n})"
        for what, spread in (
            ("of 3 s", baseline.three_ms),
            ("of 30 s", baseline.thirty_ms),
            ("four of 3 s one after the other", baseline.four_ms),
        )
        if spread
    ]
    return f"Baseline, a faster_whisper call {', '.join(times)}. {baseline.how}".rstrip()


def _server_lines(server: ServerReport) -> list[str]:
    head = [server.url, server.model + (f" and {server.draft}" if server.draft else "")]
    head += [f"{server.compute_type} on {server.device}"] if server.device else []
    head += [f"{server.threads} threads"] if server.threads else []
    head += [f"at most {server.memory_bytes / 2**20:.0f} MiB"] if server.memory_bytes else []
    lines = ["; ".join(head)]
    lines += [f"chosen: {server.choice_reason}"] if server.choice_reason else []
    if not server.streams:
        lines.append("It has no live streams: only files were sent.")
    lines += [health_text(server.health)] if server.health else []
    if server.vad and server.vad.stream:
        own = server.vad.reported
        alone = f"; the detector alone, as it reports, {own:.2f} ms" if own else ""
        took = server.vad.stream.median
        lines.append(f"A second of background noise took {took:.1f} ms of the clock{alone}")
    if words := server.words:
        rate = f"{words.rate:.1%}" if words.rate is not None else f"not measured ({words.reason})"
        lines.append(f"Word error rate: {rate}, {words.words} words in {words.texts} recordings")
    if loop := server.loop:
        most = f", at most {loop.most_bytes / 2**20:.0f} MiB" if loop.most_bytes else ""
        lines.append(f"{loop.audio_s / 60:.0f} minutes of speech in {loop.seconds:.0f} s{most}")
    return lines


def panels(report: Report) -> list[list[Panel]]:
    """Return the rows of the chart: final texts, first partial texts, and files."""
    each = _each(report)
    final = [_bar(label, colour, f.final_ms) for label, colour, f in each if f.case.what != "file"]
    partial = [
        _bar(label, colour, f.first_partial_ms)
        for label, colour, f in each
        if f.case.what == "live"
    ]
    files = [_bar(label, colour, f.whole_ms) for label, colour, f in each if f.case.what == "file"]
    baselines = (("3 s", report.baseline.three_ms), ("30 s", report.baseline.thirty_ms))
    files += [_bar(f"baseline, {kind}", GREY, spread) for kind, spread in baselines if spread]
    threshold = float(report.end_of_speech_ms)
    found = [
        Panel("end of speech to final text; dashed: the threshold", tuple(final), threshold),
        Panel("first sound to first partial text", tuple(partial)),
        Panel("files, and baselines beside them", tuple(files)),
    ]
    return [[panel] for panel in found if any(bar.end is not None for bar in panel.bars)]


def _bar(label: str, colour: str, spread: Spread | None) -> Bar:
    if spread is None:
        return Bar(label, colour)
    text = f"{spread.median:,.0f} (n={spread.n})"
    return Bar(label, colour, spread.median, text, line=spread.p95)


def _each(report: Report) -> list[tuple[str, str, Figures]]:
    """Return every kind of request of every server, those of one kind side by side."""
    cases = dict.fromkeys(f.case for server in report.servers for f in server.figures)
    several = len(report.servers) > 1
    return [
        (
            case_text(case) + (f" · {server.name}" if several else ""),
            COLOURS[number % len(COLOURS)],
            figures,
        )
        for case in cases
        for number, server in enumerate(report.servers)
        for figures in server.figures
        if figures.case == case
    ]

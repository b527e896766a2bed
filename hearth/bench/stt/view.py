"""Tables and bars of an STT report."""

from __future__ import annotations

from collections.abc import Sequence

from hearth.bench.chart import Bar, Panel, bars
from hearth.bench.stt.figures import Case, SttFigures, SttReport, SttServerReport
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
from hearth.clients.stats import Spread

TITLE = "Transcription, measured"
CHART = "Transcription: medians in ms, thin lines to the 95th percentile"
_LIVE_COLUMNS = (
    *("spoken", "n", "end of speech → final ms", "p95", "end detected ms"),
    *("start detected ms", "first partial ms", "partials", "finals"),
)
_FILE_COLUMNS = ("file", "n", "whole ms", "p95", "RTF")


def sections(report: SttReport) -> list[Section]:
    """Return the ratios, the figures of every server, and the errors."""
    return sections_of(report, baseline_text(report), _server_sections)


def _server_sections(server: SttServerReport) -> list[Section]:
    errors = [*(server.loop.errors if server.loop else ())]
    errors += [server.words.reason] if server.words and server.words.failed else []
    live = [
        (
            *(case_text(f.case), calls(f), middle(f.final_ms), p95(f.final_ms)),
            *(middle(f.ended_ms), middle(f.started_ms)),
            *(middle(f.first_partial_ms), middle(f.partials), middle(f.finals, 1)),
        )
        for f in server.figures
        if f.case.what != "file"
    ]
    files = [
        (f"{f.case.seconds} s", calls(f), middle(f.whole_ms), p95(f.whole_ms), middle(f.rtf, 3))
        for f in server.figures
        if f.case.what == "file"
    ]
    found = [
        Section(f"{server.name}: live, medians", _LIVE_COLUMNS, live),
        Section(f"{server.name}: files, medians", _FILE_COLUMNS, files),
    ]
    found = [section for section in found if section.rows]
    errors = errors_of(server.stopped, server.figures, *errors)
    return [*found, Section(lines=_server_lines(server), errors=errors)]


def case_text(case: Case) -> str:
    """Return the name of a kind of request."""
    length = f"{case.seconds} s"
    if case.what == "crowd":
        return f"{length}, {case.streams} at once"
    return length if case.what == "live" else f"{length}, {case.what.removeprefix('live ')}"


def baseline_text(report: SttReport) -> str:
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


def _server_lines(server: SttServerReport) -> list[str]:
    model = server.model + (f" and {server.draft}" if server.draft else "")
    device = f"{server.compute_type} on {server.device}" if server.device else ""
    lines = [server_text(server, model, device)]
    lines += [f"chosen: {server.choice_reason}"] if server.choice_reason else []
    if not server.streams:
        lines.append("It has no live streams: only files were sent.")
    lines += health_text(server.health)
    if server.vad and server.vad.stream:
        own = server.vad.reported
        alone = f"; the detector alone, as it reports, {own:.2f} ms" if own else ""
        took = server.vad.stream.median
        lines.append(f"A second of background noise took {took:.1f} ms of wall time{alone}")
    if words := server.words:
        rate = f"{words.rate:.1%}" if words.rate is not None else f"not measured ({words.reason})"
        lines.append(f"Word error rate: {rate}, {words.words} words in {words.texts} recordings")
    if loop := server.loop:
        most = f", at most {loop.most_bytes / 2**20:.0f} MiB" if loop.most_bytes else ""
        lines.append(f"{loop.audio_s / 60:.0f} minutes of speech in {loop.seconds:.0f} s{most}")
    return lines


def panels(report: SttReport) -> list[list[Panel]]:
    """Return the rows of the chart: final texts, first partial texts, and files."""
    cases = list(dict.fromkeys(f.case for server in report.servers for f in server.figures))
    files = [case for case in cases if case.what == "file"]
    spoken = [case for case in cases if case.what != "file"]
    live = [case for case in cases if case.what == "live"]

    def drawn(some: Sequence[Case], name: str) -> tuple[Bar, ...]:
        def draw(case: Case, figures: SttFigures | None) -> Bar | None:
            return _bar(case_text(case), getattr(figures, name)) if figures else None

        return bars(report.servers, some, draw)

    times = (("3 s", report.baseline.three_ms), ("30 s", report.baseline.thirty_ms))
    baselines = tuple(_bar(f"baseline, {kind}", spread) for kind, spread in times if spread)
    threshold, title = float(report.end_of_speech_ms), "end of speech to final text"
    found = [
        Panel(f"{title}; dashed: the threshold", drawn(spoken, "final_ms"), threshold),
        Panel("first sound to first partial text", drawn(live, "first_partial_ms")),
        Panel("files, and baselines beside them", drawn(files, "whole_ms") + baselines),
    ]
    return [[panel] for panel in found if any(bar.end is not None for bar in panel.bars)]


def _bar(label: str, spread: Spread | None) -> Bar:
    if spread is None:
        return Bar(label)
    return Bar(label, spread.median, f"{spread.median:,.0f} (n={spread.n})", line=spread.p95)

"""Tables and bars of an STT report."""

from __future__ import annotations

from dataclasses import replace

from hearth.bench.chart import Panel, bar_of, panel
from hearth.bench.report import Figures
from hearth.bench.stt.requests import SttCase
from hearth.bench.stt.run import SttReport, SttServerReport
from hearth.bench.view import Section, middle, p95, sections_of, server_section, table

TITLE = "Transcription, measured"
CHART = "Transcription: medians in ms, thin lines to the 95th percentile"
_LIVE_COLUMNS = (
    ("end of speech → final ms", middle("final_ms")),
    ("p95", p95("final_ms")),
    ("end detected ms", middle("ended_ms")),
    ("start detected ms", middle("started_ms")),
    ("first partial ms", middle("first_partial_ms")),
    ("partials", middle("partials")),
    ("finals", middle("finals", 1)),
)
_FILE_COLUMNS = (
    ("whole ms", middle("whole_ms")),
    ("p95", p95("whole_ms")),
    ("RTF", middle("rtf", 3)),
)


def sections(report: SttReport) -> list[Section]:
    """Return the ratios, the figures of every server, and the errors."""
    return sections_of(report, _server_sections)


def _server_sections(server: SttServerReport) -> list[Section]:
    errors = [server.words.reason] if server.words and server.words.failed else []
    found = []
    for kind, columns in (("live", _LIVE_COLUMNS), ("files", _FILE_COLUMNS)):
        some = [f for f in server.figures if (f.case.what == "file") == (kind == "files")]
        if some:
            title = f"{server.name}: {kind}, medians"
            found.append(table(title, columns, some, _name))
    status = server.status
    model = " and ".join(filter(None, (server.model, status.get("draft"))))
    device = f"{status.get('compute_type')} on {status['device']}" if "device" in status else ""
    return [*found, server_section(server, [model, device], _lines(server), errors)]


def _name(case: SttCase, figures: Figures | None = None) -> str:
    length = f"{case.seconds} s"
    if case.what == "crowd":
        return f"{length}, {case.streams} at once"
    manner = "" if case.what == "file" else case.what.removeprefix("live").strip()
    return f"{length}, {manner}" if manner else length


def _lines(server: SttServerReport) -> list[str]:
    lines = [f"chosen: {why}"] if (why := server.status.get("choice_reason")) else []
    if not server.streams:
        lines.append("It has no live streams: only files were sent.")
    if words := server.words:
        rate = f"{words.rate:.1%}" if words.rate is not None else f"not measured ({words.reason})"
        lines.append(f"Word error rate: {rate}, {words.words} words in {words.texts} recordings")
    return lines


def panels(report: SttReport) -> list[list[Panel]]:
    """Return the rows of the chart: final texts, first partial texts, and files."""
    cases = list(dict.fromkeys(f.case for server in report.servers for f in server.figures))
    files = [case for case in cases if case.what == "file"]
    spoken = [case for case in cases if case.what != "file"]
    live = [case for case in cases if case.what == "live"]
    title = "end of speech to final text; dashed: the threshold"
    threshold, servers = float(report.end_of_speech_ms), report.servers
    whole = panel("files, and baselines beside them", servers, files, _name, "whole_ms")
    times = report.baseline.times_ms
    baselines = [
        bar_of(f"baseline, {what}", times[what]) for what in ("3 s", "30 s") if what in times
    ]
    found = [
        panel(title, servers, spoken, _name, "final_ms", mark=threshold),
        panel("first sound to first partial text", servers, live, _name, "first_partial_ms"),
        replace(whole, bars=(*whole.bars, *baselines)),
    ]
    return [[each] for each in found if any(bar.end is not None for bar in each.bars)]

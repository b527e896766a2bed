"""Tables and bars of a report on calls."""

from __future__ import annotations

from hearth.bench.chart import Panel, bar_of
from hearth.bench.report import Figures, ServerReport
from hearth.bench.view import Section, middle, p95, ratio_section, server_section, table
from hearth.bench.voice.requests import VoiceCase
from hearth.bench.voice.run import ALONE, BARGE_IN, EARLY, LATE, VoiceReport

TITLE = "Calls, measured"
CHART = "Calls: medians in ms, thin lines to the 95th percentile"
_STAGES = {
    "silence_ms": "pause",
    "transcription_ms": "your words",
    "model_ms": "first word",
    "voice_ms": "first sound",
}
_TURN_COLUMNS = (
    ("end of speech → first sound ms", middle("total_ms")),
    ("p95", p95("total_ms")),
    ("beyond the sum ms", middle("added_ms")),
    *((f"{name} ms", middle(stage)) for stage, name in _STAGES.items()),
    ("started early", lambda figures: f"{figures.totals['early']:.0f}"),
    ("stalls", lambda figures: f"{figures.totals['stalls']:.0f}"),
)
_PAUSE_COLUMNS = (
    ("taken for the end", lambda figures: f"{figures.totals['false_ends']:.0f}"),
    ("end of speech → end of turn ms", middle("detected_ms")),
    ("p95", p95("detected_ms")),
)
_BARGE_IN_COLUMNS = (("first syllable → stop ms", middle("stopped_ms")), ("p95", p95("stopped_ms")))


def sections(report: VoiceReport) -> list[Section]:
    """Return the targets, the figures, the cost, and the errors."""
    (server,) = report.servers
    turns = [one for one in server.figures if one.case in ALONE or one.case.what == EARLY.what]
    turns = [one for one in server.figures if one in turns or one.case == LATE]
    pauses = [one for one in server.figures if one.case.pause_s]
    stops = [one for one in server.figures if one.case == BARGE_IN]
    found = [ratio_section(report.ratios, server.name)]
    for title, columns, some in (
        ("turns, medians", _TURN_COLUMNS, turns),
        ("pauses within a question", _PAUSE_COLUMNS, pauses),
        ("interruptions", _BARGE_IN_COLUMNS, stops),
    ):
        if some:
            found.append(table(title, columns, some, _name))
    found.append(server_section(server, [server.model], [*_shares(server), *_costs(report)]))
    return found + ([Section(errors=[report.stopped])] if report.stopped else [])


def _name(case: VoiceCase, _: Figures | None = None) -> str:
    if case.pause_s:
        return f"{case.pause_s:g} s, {case.what.partition(', ')[2]}"
    return f"{case.what}, {case.calls} calls at once" if case.calls > 1 else case.what


def _shares(server: ServerReport) -> list[str]:
    """Return how much of a turn without speculation each stage takes."""
    late = next((one for one in server.figures if one.case == LATE), None)
    lengths = {name: late[stage] for stage, name in _STAGES.items()} if late else {}
    known = {name: length.median for name, length in lengths.items() if length}
    if not known or not (total := sum(known.values())):
        return []
    shares = (f"{name} {100 * length / total:.0f} %" for name, length in known.items())
    return [f"Of a turn without speculation: {', '.join(shares)}."]


def _costs(report: VoiceReport) -> list[str]:
    cost, found = report.cost, []
    if cost.idle_share is not None:
        found.append(f"While nobody calls it takes {100 * cost.idle_share:.2f} % of a core.")
    if cost.call_share is not None:
        found.append(f"Each of {cost.limit} calls takes {100 * cost.call_share:.1f} % of a core.")
    if cost.refused:
        found.append(f"One more is told: {cost.refused}")
    return found


def panels(report: VoiceReport) -> list[list[Panel]]:
    """Return the rows of the chart: turns beside their parts, and the end of turns."""
    (server,) = report.servers
    spoken = [one for one in server.figures if one["total_ms"]]
    ended = [one for one in server.figures if one["detected_ms"]]
    rows = [
        Panel(title, tuple(bar_of(_name(one.case), one[name]) for one in some))
        for title, some, name in (
            ("end of speech to the first sound, and its parts alone", spoken, "total_ms"),
            ("end of speech to the end of the turn", ended, "detected_ms"),
        )
    ]
    return [[each] for each in rows if each.bars]

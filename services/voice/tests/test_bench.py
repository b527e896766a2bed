"""`hearth bench voice` against the real server: each figure, and what misses a target."""

import io
import json
from dataclasses import asdict, replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from rich.console import Console

from hearth.bench import view
from hearth.bench.__main__ import SCHEMAS
from hearth.bench.session import measure
from hearth.bench.voice.requests import VoicePaths
from hearth.bench.voice.run import PARTS, VoicePlan, VoiceReport, VoiceSession
from hearth.bench.voice.view import panels, sections
from hearth.clients.endpoints import Endpoint

from .conftest import House, OpenHouse
from .parts import Gateway, Recogniser, Speaker

PLAN = VoicePlan(runs=2, pauses_s=(1.2,), asked=1, idle_s=0.5, timeout_s=240)
LONG = "The kettle is on, and the kitchen is warm, and the soup is on the table. " * 3


async def bench(house: House, *parts: str, **more: Any) -> VoiceReport:
    config = house.state.config
    paths = VoicePaths(
        Endpoint("caddy", house.url),
        Endpoint("whisper", config.whisper),
        Endpoint("gateway", config.litellm, "voice"),
        Endpoint("kokoro", config.kokoro),
    )
    plan = replace(PLAN, parts=parts or PARTS, **more)
    return await measure(VoiceSession, [Endpoint("voice", house.url)], plan, paths=paths)


def shown(report: VoiceReport) -> str:
    console = Console(width=220, record=True, file=io.StringIO())
    console.print(view.terminal(sections(report), view.machine_text(report)))
    return console.export_text()


def row(report: VoiceReport, what: str) -> Any:
    return next(one for one in report.ratios if what in one.what)


async def test_a_turn_is_measured_beside_its_parts(open_house: OpenHouse) -> None:
    # The parts take so long that what a busy machine adds to them is little.
    gateway, speaker = Gateway(first_s=0.3, pace_s=0.005), Speaker(takes_s=0.2)
    async with open_house(Recogniser(takes_s=0.05), speaker, gateway) as house:
        report = await bench(house, "turn", runs=3)
    assert not report.stopped
    figures = {one.case.what: one for one in report.servers[0].figures}
    assert all(one.calls == 3 and not one.failed for one in figures.values()), shown(report)
    alone = [figures[f"{part}, alone"]["total_ms"] for part in ("final text", "first token")]
    assert alone[0]
    assert alone[0].median >= 500
    assert alone[1]
    assert alone[1].median >= 300
    turns = figures["a turn"], figures["a turn, without speculation"]
    early, late = (one["total_ms"] for one in turns)
    assert early
    assert late, shown(report)
    assert early.median < late.median, shown(report)
    assert (turns[0].totals["early"], turns[1].totals["early"]) == (3, 0)
    assert row(report, "not faster than that sum").value == 0
    # The budget is for a card.
    assert row(report, "first sound").unit
    assert row(report, "end of speech → first sound").verdict == "not measured"
    assert "Of a turn without speculation: pause" in shown(report)
    assert [[bar.end is not None for bar in one.bars] for (one,) in panels(report)] == [[True] * 5]
    schema = json.loads(SCHEMAS["docs/schema/bench-voice.json"])
    jsonschema.validate(json.loads(json.dumps(asdict(report))), schema)


async def test_a_pause_that_is_taken_for_the_end_is_counted(open_house: OpenHouse) -> None:
    # The recogniser offers a text early in each pause, and the final one of the whole.
    texts = ["I would like to know", "I would like to know whether the window is closed."]
    recogniser = Recogniser(takes_s=0.02, texts=["Warm.", *texts, *texts])
    async with open_house(recogniser) as house:
        report = await bench(house, "pause")
    rows = {one.case.what: one for one in report.servers[0].figures}
    by_text, by_silence = rows["a pause, end by its text"], rows["a pause, end by silence alone"]
    assert (by_text.totals["false_ends"], by_silence.totals["false_ends"]) == (0, 1)
    assert by_text["detected_ms"]
    assert by_text["detected_ms"].median < 1500
    assert row(report, "taken for the end").verdict == "reached"


async def test_words_that_are_made_up_tell_nothing_about_pauses(house: House) -> None:
    report = await bench(house, "pause")
    found = row(report, "taken for the end")
    assert found.verdict == "not measured"
    assert "does not understand" in found.reason


async def test_an_interruption_is_timed_from_its_first_syllable(open_house: OpenHouse) -> None:
    async with open_house(gateway=Gateway(default=LONG)) as house:
        report = await bench(house, "interruption", runs=1)
    found = row(report, "first syllable")
    assert found.n == 1, shown(report)
    assert 0 < found.value < 2000


async def test_as_many_calls_as_it_answers_and_one_more(open_house: OpenHouse) -> None:
    async with open_house(calls=2) as house:
        report = await bench(house, "crowd", "idle", runs=1)
    text = shown(report)
    (together,) = (one for one in report.servers[0].figures if one.case.calls == 2)
    assert (together.calls, together.failed) == (2, 0), text
    assert row(report, "beyond the limit").verdict == "reached"
    assert report.cost.limit == 2
    assert "2 calls are going on" in report.cost.refused
    assert report.cost.call_share
    assert report.cost.idle_share is not None
    assert "One more is told" in text
    assert row(report, "memory").value > 1


async def test_without_an_answer_it_ends_with_the_reason(open_house: OpenHouse) -> None:
    async with open_house(gateway=Gateway(status=500)) as house:
        report = await bench(house, "turn", runs=3)
    assert not report.fine
    assert "no turn was answered" in report.servers[0].stopped
    assert "no model of voice answered" in shown(report)

"""Whole runs against scripted servers, from the first question to the report."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from rich.console import Console

from hearth.bench import chart, view
from hearth.bench.__main__ import SCHEMAS
from hearth.bench.baseline import NO_BASELINE, Run
from hearth.bench.report import Figures, Ratio
from hearth.bench.session import measure
from hearth.bench.stt.requests import SttCase
from hearth.bench.stt.run import FORM, PARTS, SttPlan, SttReport, SttSession
from hearth.bench.stt.view import CHART, TITLE, panels, sections
from hearth.bench.stt.word_errors import WordErrors
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import utterances, wav
from tests.ports import kept_port
from tests.unit.bench.stt.conftest import tone
from tests.unit.bench.stt.scripted import IDLE_BYTES, TEXT, Scripted

ROOT = Path(__file__).parents[4]
PLAN = SttPlan(
    runs=3,
    block=2,
    lengths=(1,),
    lead_s=0.02,
    end_of_speech_ms=40,
    long_s=2,
    timeout_s=60,
)
PLAIN_S = 1.0

pytestmark = pytest.mark.usefixtures("short")


def call(sounds: Sequence[bytes]) -> list[float]:
    return [PLAIN_S for _ in sounds]


def baseline(status: Mapping[str, Any]) -> Run:
    assert status["threads"] == 2
    return call


def server(scripted: Scripted, habit: str = "steady") -> Endpoint:
    return Endpoint(habit, scripted.at(habit), "whisper-1")


def figures(report: SttReport, case: SttCase, number: int = 0) -> Figures:
    (one,) = (f for f in report.servers[number].figures if f.case == case)
    return one


def ratio(report: SttReport, what: str) -> Ratio:
    return next(row for row in report.ratios if row.what.startswith(what))


async def test_a_whole_run(scripted: Scripted) -> None:
    scripted.texts = [TEXT] * 4
    steps: list[str] = []
    report = await measure(
        SttSession,
        [server(scripted)],
        replace(PLAN, parts=PARTS),
        baseline=baseline,
        progress=lambda done, of, what: steps.append(what),
    )
    (ours,) = report.servers
    assert (ours.model, ours.status["draft"], ours.status["device"], ours.threads) == (
        "small",
        "tiny.en",
        "cpu",
        2,
    )
    assert (ours.streams, ours.memory_bytes, ours.stopped) == (True, IDLE_BYTES, "")
    assert (report.form, report.stopped, report.baseline.reason) == (FORM, "", "")
    counts = {(f.case.what, f.case.seconds): (f.calls, f.failed) for f in ours.figures}
    assert counts == {
        ("live", 3): (3, 0),
        ("live without partials", 3): (1, 0),
        ("flush", 3): (1, 0),
        ("live", 1): (1, 0),
        ("file", 30): (1, 0),
        ("file", 2): (1, 0),
        ("crowd", 3): (4, 0),
    }
    live = figures(report, SttCase("live", 3))
    final_ms, times_ms = live["final_ms"], report.baseline.times_ms
    assert final_ms is not None
    assert final_ms.median >= 40
    # Three utterances in blocks of two, each with a plain call of its own.
    assert (times_ms["3 s"].n, times_ms["3 s"].median) == (3, 1000)
    assert times_ms["four of 3 s one after the other"].median == 4000
    verdicts = {row.what.split(",")[0].split(" ")[0]: row.verdict for row in report.ratios}
    assert verdicts["end"] == verdicts["four"] == "reached"
    assert any("words" in line for line in steps)


async def test_the_speech_is_as_long_as_requested_and_the_warm_up_is_not_counted(
    scripted: Scripted,
) -> None:
    await measure(SttSession, [server(scripted)], replace(PLAN, parts=("live",)))
    starts = [order for order in scripted.orders if order[0] == "start"]
    # One to warm up, three of 3 s, one each without partials, flushed, and of 1 s.
    assert len(starts) == 7
    assert [s["partials"] for s in scripted.starts].count(False) == 1
    assert len(scripted.files) == 1


async def test_a_server_without_a_socket_gets_files_in_turn(scripted: Scripted) -> None:
    plan = replace(PLAN, parts=("live", "file"))
    report = await measure(
        SttSession, [server(scripted), server(scripted, "deaf")], plan, baseline=baseline
    )
    ours, other = report.servers
    assert (ours.streams, other.streams) == (True, False)
    assert {f.case.what for f in other.figures} == {"file"}
    assert {row.what.split(" ")[0] for row in report.ratios if row.server == "deaf"} == {
        "/health",
        "seconds",
    }
    shown = Console(file=io.StringIO(), width=200)
    shown.print(view.terminal(sections(report)))
    assert isinstance(shown.file, io.StringIO)
    assert "no live streams" in shown.file.getvalue()


async def test_a_server_that_only_fails_is_given_up(scripted: Scripted) -> None:
    report = await measure(SttSession, [server(scripted, "hanging-up")], PLAN)
    assert (
        "given up after 3 failures in a row: it closed the connection (1011)"
        in report.servers[0].stopped
    )
    assert not report.fine
    assert len(scripted.orders) <= 4


async def test_the_answer_to_a_file_is_reported(scripted: Scripted) -> None:
    plan = replace(PLAN, parts=("file", "wer"))
    for habit, message in (("refusing", "HTTP 404"), ("lying", "without a text")):
        report = await measure(SttSession, [server(scripted, habit)], plan)
        assert message in figures(report, SttCase("file", 30)).errors[0]
        words = report.servers[0].words
        assert words is not None
        assert (message in words.reason, words.failed) == (True, True)


async def test_words_are_counted_only_where_they_are_words(
    scripted: Scripted, tmp_path: Path
) -> None:
    plan = replace(PLAN, parts=("wer",))
    report = await measure(SttSession, [server(scripted)], plan)
    assert report.servers[0].words is not None
    assert report.servers[0].words.rate is None
    assert "hardly a word" in report.servers[0].words.reason
    spoken = [one.text for kind in (3, 10, 30) for one in utterances(kind)]
    scripted.texts = [TEXT, *spoken[:-1], spoken[-1].replace("kettle", "cattle")]
    report = await measure(SttSession, [server(scripted)], plan)
    words = report.servers[0].words
    assert words is not None
    assert (words.texts, words.reason) == (len(spoken), "")
    assert words.rate == pytest.approx(2 / words.words)
    (tmp_path / "mine.wav").write_bytes(wav(tone()))
    (tmp_path / "mine.txt").write_text(TEXT)
    report = await measure(SttSession, [server(scripted)], replace(plan, spoken=tmp_path))
    assert report.servers[0].words is not None
    assert (report.servers[0].words.rate, report.servers[0].words.texts) == (0.0, 1)


async def test_a_missing_baseline_is_reported_with_its_reason(scripted: Scripted) -> None:
    report = await measure(SttSession, [server(scripted)], replace(PLAN, parts=("crowd",)))
    assert report.baseline.reason == NO_BASELINE
    assert ratio(report, "four").reason == NO_BASELINE

    def broken(sounds: Sequence[bytes]) -> list[float]:
        raise ClientError("no model there")

    plan = replace(PLAN, parts=("live", "crowd"))
    report = await measure(SttSession, [server(scripted)], plan, baseline=lambda status: broken)
    assert report.baseline.reason == "no model there"
    assert ratio(report, "four").reason == "no model there"


async def test_time_that_is_over_ends_with_what_there_is(scripted: Scripted) -> None:
    report = await measure(SttSession, [server(scripted)], replace(PLAN, timeout_s=0.6, runs=100))
    assert "ended after 0.6 s" in report.stopped
    assert not report.fine


async def test_words_that_were_not_answered_make_a_run_fail(scripted: Scripted) -> None:
    report = await measure(SttSession, [server(scripted)], replace(PLAN, parts=()))
    (ours,) = report.servers
    assert not ours.failed
    assert replace(ours, words=WordErrors(None, 0, 0, "HTTP 500", failed=True)).failed
    assert not replace(ours, words=WordErrors(None, 2, 9, "hardly a word is right")).failed


async def test_a_missing_server_is_one_line() -> None:
    with kept_port() as port, pytest.raises(ClientError, match="ConnectError"):
        await measure(SttSession, [Endpoint("s", f"http://127.0.0.1:{port}", "whisper-1")], PLAN)


async def test_it_is_read_by_people_programs_and_eyes(scripted: Scripted, tmp_path: Path) -> None:
    plan = replace(PLAN, parts=("live", "file"))
    report = await measure(SttSession, [server(scripted)], plan, baseline=baseline, how="By hand.")
    as_json = json.loads(json.dumps(asdict(report)))
    jsonschema.validate(as_json, json.loads(SCHEMAS["docs/schema/bench-stt.json"]))
    as_json["servers"][0]["figures"][0]["spreads"]["finl_ms"] = None
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(as_json, json.loads(SCHEMAS["docs/schema/bench-stt.json"]))
    page = view.markdown(
        TITLE, "hearth bench stt --quick", view.machine_text(report), sections(report)
    )
    assert "`hearth bench stt --quick`" in page
    assert "| 3 s, flush | 1 |" in page
    assert "Baseline, medians: 3 s 1,000 ms (n=3)" in page
    assert [row[0].title.split(" ")[0] for row in panels(report)] == ["end", "first", "files,"]
    chart.draw(CHART, "", panels(report), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_the_published_schemas_are_the_codes() -> None:
    # `python -m hearth.bench` writes them.
    for name, text in SCHEMAS.items():
        assert (ROOT / name).read_text("utf-8") == text

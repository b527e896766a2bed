"""`hearth bench voice` as a person types it, and its tables."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hearth.bench import view
from hearth.bench.report import BaselineFigures, ServerReport, figures_of, ratio, this_machine
from hearth.bench.voice.requests import FIELDS, TOTALS, CallSample, VoiceCase
from hearth.bench.voice.run import ALONE, BARGE_IN, EARLY, FORM, LATE, Cost, VoiceReport
from hearth.bench.voice.view import panels, sections
from hearth.cli import bench, bench_voice
from hearth.clients import ClientError


def test_a_part_that_is_not_there_is_named() -> None:
    done = CliRunner().invoke(bench.app, ["voice", "--only", "turns"])
    assert done.exit_code == 2
    assert "did you mean turn?" in " ".join(done.stderr.replace("│", " ").split())


def test_a_house_without_calls_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    house = SimpleNamespace(offering=lambda what: ())
    vault = SimpleNamespace(get=lambda name: "sk-test")
    project = SimpleNamespace(house=lambda: house, vault=vault)
    monkeypatch.setattr(bench_voice, "current", lambda: project)
    done = CliRunner().invoke(bench.app, ["voice"])
    assert isinstance(done.exception, ClientError)
    assert "voice: {enabled: true}" in str(done.exception)


def report_of(cost: Cost, **samples: list[CallSample]) -> VoiceReport:
    cases = dict(zip(("text", "token", "sound"), ALONE, strict=True))
    cases |= {"early": EARLY, "late": LATE, "stop": BARGE_IN}
    cases |= {"pause": VoiceCase("a pause, end by its text", pause_s=0.9)}
    cases |= {"crowd": VoiceCase("a turn", calls=4)}
    figures = tuple(figures_of(cases[name], some, FIELDS, TOTALS) for name, some in samples.items())
    server = ServerReport(
        name="voice",
        url="http://voice",
        model="voice",
        threads=None,
        memory_bytes=90 << 20,
        status={},
        figures=figures,
        health=None,
        stopped="",
    )
    return VoiceReport(
        form=FORM,
        started="2026-11-26T12:00:00+00:00",
        seconds=60.0,
        quick=True,
        runs=1,
        machine=this_machine(0.5),
        servers=(server,),
        baseline=BaselineFigures({}, "", ""),
        ratios=(ratio("voice", "memory", "MB", 200.0, 94.0, 1, ""),),
        cost=cost,
    )


def shown(report: VoiceReport) -> str:
    console = Console(width=220, record=True, file=io.StringIO())
    console.print(view.terminal(sections(report), view.machine_text(report)))
    return console.export_text()


def test_each_stage_has_its_share_and_a_call_its_cost() -> None:
    late = CallSample(
        total_ms=1000,
        added_ms=-20,
        silence_ms=500,
        transcription_ms=0,
        model_ms=300,
        voice_ms=200,
        early=0,
        stalls=0,
    )
    cost = Cost(4, "4 calls are going on", 0.001, 90 << 20, 0.034)
    report = report_of(
        cost,
        token=[CallSample(total_ms=300)],
        late=[late],
        pause=[CallSample(detected_ms=460, false_ends=1)],
        stop=[CallSample(stopped_ms=120)],
        crowd=[CallSample(total_ms=1500, early=1, stalls=0), CallSample("broken")],
    )
    text = shown(report)
    assert "pause 50 %, your words 0 %, first word 30 %, first sound 20 %" in text
    assert "Each of 4 calls takes 3.4 % of a core." in text
    assert "While nobody calls it takes 0.10 % of a core." in text
    assert "One more is told: 4 calls are going on" in text
    assert "0.9 s, end by its text" in text
    assert "a turn, 4 calls at once" in text
    assert "broken" in text
    assert not report.fine
    assert len(panels(report)) == 2

"""What people read of a report: tables, bars, and two machines beside each other."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from hearth.bench import chart, view
from hearth.bench.llm.report import Expected, LlmReport
from hearth.bench.llm.requests import PROMPTS
from hearth.bench.llm.view import CHART, TITLE, beside, panels, sections
from tests.unit.bench.llm.scripted import Servers, bench_of, target


@pytest.fixture
async def report(tmp_path: Path) -> LlmReport:
    expected = Expected(40.0, 30.0, 50.0, where="gpu")
    targets = [target("a", calls=True), target("b", quiet=True)]
    bench = bench_of(Servers(thinking=True), tmp_path / "x.jsonl", targets, expected=expected)
    return await replace(bench, skipped={"c": "it is not there yet (pulling)"}).run()


def page(report: LlmReport) -> str:
    return view.markdown(TITLE, "hearth bench llm", view.machine_text(report), sections(report))


def test_the_page_has_a_table_of_the_three_prompts(report: LlmReport) -> None:
    lines = page(report).splitlines()
    head = lines.index("| model | quantisation |  | short | reasoning | coding | runs |")
    assert lines[head + 2].startswith("| a | Q4_K_M | directly | 20.0 | 20.0 | 20.0 | 2 |")
    assert lines[head + 3].startswith("| a | Q4_K_M | through LiteLLM |")
    assert "| a | 20.0 | 40.0 | 30.0 to 50.0 | - | slower |" in lines
    assert "c is not measured: it is not there yet (pulling)" in lines
    assert "a is slow: 1. spilled: 1.0 of 5.0 GiB are in the machine's memory" in lines
    assert "| a | directly | 2 of 2 |" in page(report)
    assert "Watts: not measured, because this machine does not tell them." in lines
    assert "| a | 4.00 | 1.00 | 4,096 | - | - |" in lines


def test_a_terminal_shows_the_same(report: LlmReport) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(view.terminal(sections(report)))
    shown = console.export_text()
    for section in sections(report):
        assert section.title in shown or not section.rows


def test_watts_and_joules_are_of_the_tokens_that_they_made(report: LlmReport) -> None:
    model = report.models[0]
    figures = tuple(
        replace(each, totals=each.totals | {"joules": 100.0, "tokens": 40.0})
        if each.case.what == "coding"
        else each
        for each in model.figures
    )
    powered = replace(
        report,
        models=(replace(model, figures=figures),),
        watts_from=("processor (package-0)",),
        idle_watts=7.5,
    )
    text = page(powered)
    assert "Watts: processor (package-0), idling included; 7.5 W before the first request." in text
    (row,) = [line for line in text.splitlines() if line.startswith("| a | 4.00 | 1.00 |")]
    assert row.endswith("| 2.50 |")


def test_bars_show_the_prediction_as_a_band(report: LlmReport) -> None:
    (speed,), (waits,) = panels(report)
    bars = {bar.label: bar for bar in speed.bars}
    assert bars["a, coding"].end == 20.0
    band = bars["a, predicted by hearth"]
    assert (band.start, band.end, band.text) == (30.0, 50.0, "30 to 50")
    assert {bar.label for bar in waits.bars} >= {"a, cold", "b, long"}


def test_only_what_was_asked_for_has_a_bar(report: LlmReport) -> None:
    first, failed = report.models
    figures = tuple(each for each in first.figures if each.case.what == "short")
    models = (replace(first, figures=figures), replace(failed, figures=()))
    bars = [[bar.label for bar in row[0].bars] for row in panels(replace(report, models=models))]
    speed = ["a, short", "a, predicted by hearth", *(f"b, {what}" for what in PROMPTS)]
    assert [label for label in bars[0] if label != "b, predicted by hearth"] == speed
    assert bars[1] == ["a, short", "b, cold", "b, short", "b, long"]


def test_the_chart_is_drawn(report: LlmReport, tmp_path: Path) -> None:
    if not chart.available():
        pytest.skip("matplotlib is an extra: requirements/charts.txt")
    chart.draw(CHART, "foot", panels(report), tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_equal_machines_are_comparable(report: LlmReport) -> None:
    quiet = replace(report, machine=replace(report.machine, load=0.0))
    table, unlike = beside(quiet, quiet)
    assert unlike.lines == ["Everything is comparable."]
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["a", "coding, tokens/s"] == ("20.0", "20.0", "1.00")
    assert ("a", "joules per token") not in rows


def test_what_differs_between_two_machines_is_said(report: LlmReport) -> None:
    quiet = replace(report, machine=replace(report.machine, load=0.0))
    first = quiet.models[0]
    assert first.in_memory is not None
    other = replace(
        quiet,
        runs=9,
        versions={"ollama": "0.34.4"},
        machine=replace(quiet.machine, name="other", load=99.0),
        models=(
            replace(
                first,
                quantisation="Q8_0",
                digest="def",
                in_memory=replace(first.in_memory, context=8192),
            ),
            replace(first, name="z"),
        ),
        stopped="interrupted",
    )
    _, unlike = beside(quiet, other)
    assert set(unlike.lines) == {
        "All models: 2 rounds here, 9 there.",
        "All models: ollama is 0.35.0 here and 0.34.4 there.",
        "All models: the machine was busy there (load 99).",
        "All models: the run there is unfinished.",
        "a: its digest is abc here, def there.",
        "a: its quantisation is Q4_K_M here, Q8_0 there.",
        "a: its context is 4096 here, 8192 there.",
        "b is only in this report.",
        "z is only in the file.",
    }

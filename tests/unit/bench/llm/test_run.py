"""A run over several models: what is sent, what is measured, and what an interrupted run keeps."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from hearth.bench.__main__ import SCHEMAS
from hearth.bench.accelerator import Proof
from hearth.bench.llm.report import Expected, read_report, write_report
from hearth.bench.llm.requests import DIRECT, GATEWAY, PROMPTS, LlmCase, Target
from hearth.clients import ClientError
from hearth.clients.stats import Spread
from tests.unit.bench.llm.scripted import GIB, SMALL, Servers, bench_of, target


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bench-llm.jsonl"


async def test_every_model_gets_every_kind_of_request_on_both_paths(file: Path) -> None:
    servers = Servers()
    both = [target("a", calls=True), target("b")]
    report = await bench_of(servers, file, both).run()
    assert report.fine
    first, second = report.models
    kinds = {
        (each.case.what, each.case.path, each.case.clients): each.calls for each in first.figures
    }
    ways = (DIRECT, GATEWAY)
    assert kinds == {
        **{("cold", way, 1): 2 for way in ways},
        **{(what, way, 1): 2 for what in PROMPTS for way in ways},
        **{("long", way, 1): 1 for way in ways},
        **{("tool", way, 1): 2 for way in ways},
        **{("coding", way, 2): 2 for way in ways},
        **{("pair", way, 1): 3 for way in ways},
    }
    # What the gateway adds does not depend on the model; the second one calls no tools.
    assert {each.case.what for each in second.figures} == {"cold", *PROMPTS, "long"}
    assert first.gateway_adds_ms is not None
    assert second.gateway_adds_ms is None


async def test_directly_ollamas_counters_count(file: Path) -> None:
    report = await bench_of(Servers(), file, [target("a")]).run()
    (model,) = report.models
    cold, long, through = model.of("cold"), model.of("long"), model.of("long", GATEWAY)
    assert cold is not None
    assert long is not None
    assert through is not None
    assert cold["load_s"] == Spread(2, 2.0, 2.0)
    assert long["prompt_tokens_per_s"] == Spread(1, 200.0, 200.0)
    assert long["tokens_per_s"] == Spread(1, 20.0, 20.0)
    assert through["prompt_tokens_per_s"] is None
    assert model.tokens_per_s == 20.0
    assert model.in_memory is not None
    assert (model.in_memory.size_bytes, model.in_memory.vram_bytes) == (5 * GIB, 4 * GIB)
    assert (model.quantisation, model.parameters, model.digest) == ("Q4_K_M", "7.6B", "abc")


async def test_a_cold_request_finds_the_model_unloaded_and_a_warm_one_does_not(file: Path) -> None:
    servers = Servers()
    bench = bench_of(servers, file, [target("a")])
    report = await bench.run()
    loads = [
        s.load_s
        for c, each in bench.samples(bench.targets[0]).items()
        for s in each
        if c.path == DIRECT and c.what not in ("cold", "pair")
    ]
    assert all(load == 1e-6 for load in loads)
    assert len(loads) > 5
    cold = report.models[0].of("cold", GATEWAY)
    assert cold is not None
    assert cold.calls == 2


async def test_a_thinking_model_thinks_only_where_that_is_measured(file: Path) -> None:
    servers = Servers(thinking=True)
    report = await bench_of(servers, file, [target("a", quiet=True)]).run()
    (model,) = report.models
    for way in (DIRECT, GATEWAY):
        quiet, thought = model.of("coding", way), model.of("thought", way)
        assert quiet is not None
        assert thought is not None
        assert quiet["thought_ms"] is None
        assert thought["thought_ms"] is not None
        assert thought["answer_ms"] is not None
    fields = [body.get("think", body.get("reasoning_effort")) for *_, body in servers.requests]
    assert Counter(fields)[None] == 2


async def test_neither_path_is_always_first(file: Path) -> None:
    servers = Servers()
    await bench_of(servers, file, [target("a")], replace(SMALL, parts=("prompts",), runs=4)).run()
    hosts = [host for host, *_ in servers.requests]
    # After the load and the two calls that open the connections.
    assert hosts[3:7] == ["ollama", "litellm", "litellm", "ollama"]


async def test_no_prompt_is_sent_twice(file: Path) -> None:
    servers = Servers()
    await bench_of(servers, file, [target("a", calls=True)]).run()
    prompts = [body["messages"][0]["content"] for *_, body in servers.requests]
    assert len(set(prompts)) == len(prompts)
    assert max(len(prompt.split()) for prompt in prompts) > 100


@pytest.mark.parametrize(("call", "right"), [('{"city": "Paris"}', 2), ('{"city": "Rome"}', 0)])
async def test_a_call_counts_only_with_the_right_argument(
    file: Path, call: str, right: int
) -> None:
    servers = Servers(call=call)
    report = await bench_of(servers, file, [target("a", calls=True)]).run()
    for way in (DIRECT, GATEWAY):
        tool = report.models[0].of("tool", way)
        assert tool is not None
        assert (tool.totals["called"], tool.failed) == (right, 0)


async def test_an_interrupted_run_goes_on_and_repeats_nothing(file: Path) -> None:
    whole = Servers()
    await bench_of(whole, file.with_name("other.jsonl"), [target("a")]).run()
    servers = Servers(stall_at=11)
    bench = bench_of(servers, file, [target("a")])
    task = asyncio.create_task(bench.run())
    async with asyncio.timeout(10):
        await servers.stalled.wait()
    task.cancel()
    cut = await task
    assert cut.stopped.startswith("interrupted")
    assert not cut.fine
    assert cut.models[0].of("cold") is not None
    again = bench_of(servers, file, [target("a")])
    assert again.journal.resumed > 3
    report = await again.run()
    assert (report.stopped, report.fine) == ("", True)
    assert report.started == cut.started
    calls = {each.case: each.calls for each in report.models[0].figures}
    assert calls[LlmCase("coding")] == SMALL.runs
    # Once more: the round that was cut, and the two calls that warm a new run up.
    assert len(whole.requests) < len(servers.requests) <= len(whole.requests) + 4


@pytest.mark.parametrize("cut", range(1, 400, 23))
def test_a_line_that_was_cut_anywhere_costs_only_itself(file: Path, cut: int) -> None:
    asyncio.run(bench_of(Servers(), file, [target("a")]).run())
    content = file.read_bytes().rstrip(b"\n").rpartition(b"\n")[0] + b"\n"
    file.write_bytes(content[:-cut])
    again = bench_of(Servers(), file, [target("a")])
    complete = content[:-cut].count(b"\n") - 1
    assert complete <= again.journal.resumed <= complete + 1
    report = asyncio.run(again.run())
    assert report.fine
    coding = report.models[0].of("coding")
    assert coding is not None
    assert coding.calls == SMALL.runs
    # All of it can be read again, had the run been killed before its end.
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    whole = bench_of(Servers(), file, [target("a")]).journal.results
    del again.journal.results["", "end"]
    as_text = [
        {key: json.dumps(each) for key, each in some.items()}
        for some in (whole, again.journal.results)
    ]
    assert as_text[0] == as_text[1]


def test_another_plan_begins_anew_and_keeps_the_old_file(file: Path) -> None:
    bench = bench_of(Servers(), file, [target("a")])
    bench.journal.add("a", "loaded", {"of": "the old run"})
    other = bench_of(Servers(), file, [target("a")], replace(SMALL, runs=1))
    assert other.journal.resumed == 0
    kept = file.with_name("bench-llm-before.jsonl").read_text()
    assert "the old run" in kept
    # One part more is the same run.
    more = bench_of(Servers(), file, [target("a")], replace(SMALL, runs=1, parts=("cold",)))
    assert file.with_name("bench-llm-before.jsonl").read_text() == kept
    assert more.journal.head == other.journal.head


async def test_what_failed_is_tried_again_by_the_next_run(file: Path) -> None:
    servers = Servers(fail_at={5: 503})
    bench = bench_of(servers, file, [target("a")], replace(SMALL, timeout_s=0.2))
    bench.journal.add("", "idle", {"watts": None})

    async def slow(one: Target) -> Proof:
        await asyncio.Event().wait()
        raise AssertionError

    report = await replace(bench, prove=slow).run()
    assert report.stopped.startswith("ended after 0.2 s")
    failed = [each for each in report.models[0].figures if each.failed]
    assert len(failed) == 1
    assert "HTTP 503" in failed[0].errors[0]
    report = await bench_of(servers, file, [target("a")]).run()
    assert report.fine


async def test_a_model_that_only_fails_is_given_up_and_the_next_one_is_measured(
    file: Path,
) -> None:
    servers = Servers(broken=frozenset({"a:latest", "a"}))
    report = await bench_of(servers, file, [target("a"), target("b")]).run()
    assert not report.fine
    bad, good = report.models
    assert "cannot be loaded: HTTP 500" in bad.stopped
    assert good.tokens_per_s == 20.0
    assert good.stopped == ""


async def test_another_member_that_answers_is_an_error(file: Path) -> None:
    servers = Servers(answers_as="llama3.1")
    report = await bench_of(servers, file, [target("a")]).run()
    assert not report.fine
    why = "given up after 3 failures in a row (gateway): llama3.1 answered instead of a"
    assert report.models[0].stopped == why
    # Hours are not spent on a path that is broken: two cold rounds, then the first short one.
    assert sum(host == "litellm" for host, *_ in servers.requests) == 4


async def test_a_full_disk_ends_the_run_in_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(Servers(), file, [target("a")])

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hearth.bench.llm.journal.os.fsync", full)
    report = await bench.run()
    assert "No space left on device: free some space" in report.stopped
    assert "\n" not in report.stopped


async def test_outside_its_band_a_model_is_slower_with_causes_in_order(file: Path) -> None:
    wanted = Expected(40.0, 30.0, 50.0, where="vram")
    bench = bench_of(Servers(), file, [target("a")], expected=wanted)
    bench.journal.head["machine"] |= {"load": 7.5, "cores": 8}
    (model,) = (await bench.run()).models
    assert model.match == "slower"
    spilled = "spilled: 1.0 of 5.0 GiB are in the machine's memory"
    assert model.causes == (spilled, "the machine was busy before the run: load 7.5")
    bench.journal.head["machine"] |= {"load": 0.5}
    report = await bench.run()
    assert report.models[0].causes == (spilled,)
    assert not report.fine
    within = Expected(21.0, 18.0, 24.0, where="vram")
    report = await bench_of(Servers(), file, [target("a")], expected=within).run()
    assert report.models[0].match == "as predicted"


async def test_a_report_follows_its_schema_and_is_read_again(file: Path, tmp_path: Path) -> None:
    wanted = Expected(40.0, 30.0, 50.0, where="gpu")
    report = await bench_of(Servers(), file, [target("a", calls=True)], expected=wanted).run()
    as_json = json.loads(json.dumps(asdict(report)))
    schema = json.loads(SCHEMAS["docs/schema/bench-llm.json"])
    jsonschema.validate(as_json, schema)
    as_json["models"][0]["figures"][0]["spreads"]["speed"] = {"n": 1, "median": 1, "p95": 1}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(as_json, schema)
    path = tmp_path / "report.json"
    write_report(report, path)
    assert read_report(path) == report


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"form": "hearth-bench-tts/1"}', b"\xff\xfe", b"[" * 100_000],
)
def test_a_file_that_is_no_report_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ClientError) as error:
        read_report(path)
    assert str(error.value).startswith(f"{path}: no report of `hearth bench llm`")
    assert len(str(error.value).splitlines()) == 1


def test_a_missing_file_and_another_form_are_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ClientError, match="No such file"):
        read_report(tmp_path / "x.json")
    report = asyncio.run(bench_of(Servers(), file, [target("a")]).run())
    write_report(replace(report, form="hearth-bench-llm/9"), tmp_path / "new.json")
    with pytest.raises(ClientError, match="its form is 'hearth-bench-llm/9'"):
        read_report(tmp_path / "new.json")

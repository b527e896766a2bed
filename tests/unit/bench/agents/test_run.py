"""The bench goes on where it ended, gives up a dead model, and names the best one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hearth.bench.agents import run, view
from hearth.bench.agents.tasks import Task, all_tasks
from hearth.clients.endpoints import Endpoint
from tests.mock_upstreams.scripted.server import application
from tests.unit.bench.agents.judged import right_call

GATEWAY = Endpoint("gateway", "http://gateway", key="sesame")
Policy = Callable[[Task], dict[str, Any]]


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"name": name, "arguments": arguments}}]}


def perfect(task: Task) -> dict[str, Any]:
    if not task.accept:
        return {"content": "Nothing to do."}
    name, arguments = right_call(task)
    return call(name, json.dumps(arguments))


def eager(task: Task) -> dict[str, Any]:
    return perfect(task) if task.accept else call(task.tools[0]["function"]["name"], "{}")


def mute(_task: Task) -> dict[str, Any]:
    return {"content": "I would rather not."}


class Gateway(httpx.AsyncBaseTransport):
    """Answers each task by the policy of its model, and counts; `dies_after` ends that."""

    def __init__(self, dies_after: int | None = None, **policies: Policy) -> None:
        self.policies, self.dies_after = policies, dies_after
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.asked.append(body)
        self.keys.add(request.headers["authorization"])
        if self.dies_after is not None and len(self.asked) > self.dies_after:
            return httpx.Response(503, json={"error": {"message": "out of memory"}})
        found = [task for task in all_tasks() if list(task.messages) == body["messages"]]
        delta = self.policies[body["model"]](found[0]) if found else {"content": "yes"}
        events = [{"delta": delta}, {"delta": {}, "finish_reason": "stop"}]
        lines = [f"data: {json.dumps({'choices': [event]})}\n\n" for event in events]
        return httpx.Response(200, content="".join([*lines, "data: [DONE]\n\n"]).encode())


async def bench(
    transport: httpx.AsyncBaseTransport, path: Path, *names: str, only: int = 50
) -> run.AgentsReport:
    plan = run.plan_of("off")
    report = run.kept(path, plan) or run.AgentsReport(run.FORM, plan, "now")
    async with httpx.AsyncClient(transport=transport) as client:
        going = run.Bench(client, GATEWAY, all_tasks()[:only], report, path)
        return await going.run([run.Candidate(name, "sha256:1") for name in names])


async def test_the_best_is_the_one_that_is_right_and_calls_nothing_needless(
    tmp_path: Path,
) -> None:
    gateway = Gateway(good=perfect, eager=eager, mute=mute)
    report = await bench(gateway, tmp_path / "r.json", "eager", "mute", "good")
    assert gateway.keys == {"Bearer sesame"}
    scores = {
        one.model: one for one in (view.score(m, all_tasks()) for m in report.models.values())
    }
    assert (scores["good"].right, scores["good"].trusted) == (50, True)
    # Forty calls are right, but a tool is called for each good morning.
    assert (scores["eager"].right, scores["eager"].needless) == (40, 10)
    assert (scores["mute"].right, scores["mute"].right_tool) == (10, 0)
    assert not scores["eager"].trusted
    assert not scores["mute"].trusted
    lines = view.advice(list(scores.values()), ["good", "mute"])
    assert lines[0] == "The best orchestrator here is good: 50 of 50 right."
    assert lines[-1] == '  orchestrator: {members: ["good"], cloud: false}'
    stored = json.loads((tmp_path / "r.json").read_text())
    assert stored["finished"]
    assert stored["models"]["mute"]["results"]["state-one"]["verdict"] == "no call"


async def test_without_a_trusted_model_the_advice_is_to_route_by_rules(tmp_path: Path) -> None:
    report = await bench(Gateway(mute=mute), tmp_path / "r.json", "mute")
    content = view.document(report, all_tasks(), ["mute"])
    assert content["best"] is None
    assert "routes by rules" in content["advice"][1]


async def test_among_equals_the_faster_one_is_better() -> None:
    known = run.ModelResults("", results={})
    scores = []
    for name, ms, wrong in (("slow", 900.0, 0), ("fast", 200.0, 2), ("worse", 10.0, 5)):
        verdicts = ["no call" if n < wrong else "right" for n in range(50)]
        results = {
            t.name: run.Result(t.name, v, "", ms, ms)
            for t, v in zip(all_tasks(), verdicts, strict=True)
        }
        known = run.ModelResults(name, results=results)
        scores.append(view.score(known, all_tasks()))
    assert [one.model for one in view.ranking(scores)] == ["fast", "slow", "worse"]


async def test_an_interrupted_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "r.json"

    class Gone(BaseException):
        """Ends the process, as Ctrl-C does."""

    def until_ten(task: Task) -> dict[str, Any]:
        if task is all_tasks()[10]:
            raise Gone
        return perfect(task)

    with pytest.raises(Gone):
        await bench(Gateway(m=until_ten), path, "m")
    assert len(json.loads(path.read_text())["models"]["m"]["results"]) == 10
    second = Gateway(m=perfect)
    report = await bench(second, path, "m")
    # The warm-up, and what was missing.
    assert len(second.asked) == 41
    assert len(report.models["m"].results) == 50
    # A finished run is not continued, nor one of other tasks.
    assert run.kept(path, run.plan_of("off")) is None


async def test_another_model_of_the_same_name_is_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    report = await bench(Gateway(m=perfect), path, "m")
    report.finished = False
    run.keep(report, path)
    report.models["m"].digest = "sha256:another"
    run.keep(report, path)
    gateway = Gateway(m=perfect)
    await bench(gateway, path, "m")
    assert len(gateway.asked) == 51


async def test_a_model_that_stops_answering_is_given_up(tmp_path: Path) -> None:
    report = await bench(Gateway(dies_after=5, m=perfect), tmp_path / "r.json", "m")
    known = report.models["m"]
    assert known.stopped.startswith("given up after 3 failures in a row: HTTP 503")
    assert len(known.results) == 7
    assert not view.score(known, all_tasks()).trusted
    report = await bench(Gateway(dies_after=0, m=perfect), tmp_path / "s.json", "m")
    assert report.models["m"].stopped.startswith("it does not answer: HTTP 503")


async def test_the_scripted_model_is_not_taken_for_a_good_one(tmp_path: Path) -> None:
    transport = httpx.ASGITransport(application())
    report = await bench(transport, tmp_path / "r.json", "scripted:agents")
    score = view.score(report.models["scripted:agents"], all_tasks())
    assert score.failed == 0
    assert not score.trusted


async def test_scores_outlive_the_run_and_end_with_the_tasks(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    report = await bench(Gateway(good=perfect, mute=mute), path, "good", "mute")
    scores = {one.model: view.summary(one) for one in _scores(report)}
    assert scores["good"] == {"right": 50, "played": 50, "trusted": True}
    assert not scores["mute"]["trusted"]
    report.scores = scores
    run.keep(report, path)
    plan = run.plan_of("off")
    assert run.earlier_scores(path, plan) == scores
    assert run.earlier_scores(path, plan | {"thinking": "high"}) == scores
    assert run.earlier_scores(path, plan | {"tasks": "others"}) == {}
    assert run.earlier_scores(tmp_path / "none.json", plan) == {}


def _scores(report: run.AgentsReport) -> list[view.Score]:
    return [view.score(one, all_tasks()) for one in report.models.values()]

"""Plays the tasks against models through the gateway, and keeps each result at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from pydantic import TypeAdapter, ValidationError

from hearth.bench.agents.tasks import Task, digest, judge
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.llm import Reply, ask
from hearth.files import write_atomic

FORM = "hearth-bench-agents-1"
# A cold model is loaded first, and the answer to that is not counted.
WARM_UP_S, TASK_S = 600.0, 180.0
FAILURES = 3
FAILED = "failed"
# Room for a thought and a call.
_TOKENS = 4096

Progress = Callable[[int, int, str], None]
"""Called with (tasks done, tasks in all, the next one)."""


@dataclass(frozen=True, slots=True)
class Result:
    """One task: its verdict (`failed` without an answer), what was wrong, and its times."""

    task: str
    verdict: str
    did: str = ""
    first_ms: float | None = None
    total_ms: float = 0.0


@dataclass(slots=True)
class ModelResults:
    """One model's results by task; `stopped` is why it was given up."""

    model: str
    digest: str = ""
    cloud: bool = False
    results: dict[str, Result] = field(default_factory=dict)
    stopped: str = ""


@dataclass(slots=True)
class AgentsReport:
    """All models of a run; an unfinished one is continued by the next run with equal `plan`."""

    form: str
    plan: dict[str, str]
    started: str
    models: dict[str, ModelResults] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    finished: bool = False
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By model, also of earlier runs: `right` of `played` tasks, and whether it is `trusted`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model or alias to measure; its digest tells whether it is still the same."""

    name: str
    digest: str = ""
    cloud: bool = False
    more: Mapping[str, str] = field(default_factory=dict)
    """Fields of each request, such as its `reasoning_effort`."""


def plan_of(thinking: str) -> dict[str, str]:
    """Return what two runs must have in common to be one."""
    return {"tasks": digest(), "thinking": thinking}


def kept(path: Path, plan: Mapping[str, str]) -> AgentsReport | None:
    """Return an unfinished report with this plan, if there is one."""
    try:
        found = TypeAdapter(AgentsReport).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.plan == plan and not found.finished and found.form == FORM else None


def earlier_scores(path: Path, plan: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the scores of earlier runs with the same tasks; none without a readable report."""
    try:
        found = TypeAdapter(AgentsReport).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}
    return found.scores if found.plan.get("tasks") == plan["tasks"] else {}


def keep(report: AgentsReport, path: Path) -> None:
    """Write a report; a run that is killed afterwards loses nothing of it."""
    content = json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.encode())


@dataclass(frozen=True, slots=True)
class Bench:
    """Plays what is missing in a report, and writes the report after each task."""

    client: httpx.AsyncClient
    gateway: Endpoint
    tasks: Sequence[Task]
    report: AgentsReport
    path: Path
    progress: Progress = lambda done, of, what: None

    async def run(self, candidates: Sequence[Candidate]) -> AgentsReport:
        """Measure model by model, so that each is loaded once."""
        for number, one in enumerate(candidates):
            known = self.report.models.get(one.name)
            if known is None or known.digest != one.digest:
                known = ModelResults(one.name, one.digest, one.cloud)
            self.report.models[one.name] = known
            # What had no answer is tried again.
            known.results = {n: r for n, r in known.results.items() if r.verdict != FAILED}
            known.stopped = ""
            await self._measure(one, known, number * len(self.tasks), len(candidates))
        self.report.finished = True
        keep(self.report, self.path)
        return self.report

    async def _measure(self, one: Candidate, known: ModelResults, before: int, models: int) -> None:
        missing = [task for task in self.tasks if task.name not in known.results]
        speaker = Speaker(self.client, self.gateway, one)
        if missing and (error := await speaker.warm_up()):
            known.stopped = f"it does not answer: {error}"
            return
        failures = 0
        for task in missing:
            done = before + len(known.results)
            self.progress(done, models * len(self.tasks), f"{one.name}: {task.name}")
            result = await speaker.play(task)
            known.results[task.name] = result
            failures = failures + 1 if result.verdict == FAILED else 0
            if failures == FAILURES:
                known.stopped = f"given up after {FAILURES} failures in a row: {result.did}"
                return
            keep(self.report, self.path)


@dataclass(frozen=True, slots=True)
class Speaker:
    """Sends tasks to one model of the gateway."""

    client: httpx.AsyncClient
    gateway: Endpoint
    candidate: Candidate

    async def warm_up(self) -> str:
        """Load the model; return why it does not answer, empty if it does."""
        messages = [{"role": "user", "content": "Say yes."}]
        return (await self._ask({"messages": messages, "max_tokens": 8}, WARM_UP_S)).error

    async def play(self, task: Task) -> Result:
        """Play one task and judge the reply."""
        body = {"messages": list(task.messages), "tools": list(task.tools), "tool_choice": "auto"}
        reply = await self._ask(body, TASK_S)
        verdict, did = FAILED, reply.error
        if not reply.error:
            judged = judge(task, reply)
            verdict, did = judged.verdict, one_line(judged.did) if judged.did else ""
        first_ms = None if reply.first_s is None else reply.first_s * 1000
        return Result(task.name, verdict, did, first_ms, reply.total_s * 1000)

    async def _ask(self, body: Mapping[str, Any], within_s: float) -> Reply:
        endpoint = replace(self.gateway, model=self.candidate.name, call_s=within_s)
        return await ask(
            self.client, endpoint, {"max_tokens": _TOKENS, **self.candidate.more, **body}
        )

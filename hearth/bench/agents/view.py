"""The results for people: a table, what each model did wrong, and which one to choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType

from hearth.bench.agents.run import FAILED, AgentsReport, ModelResults
from hearth.bench.agents.tasks import Task
from hearth.bench.view import Section, terminal
from hearth.clients.stats import Spread, spread

# A model may act in the house if it is right in 43 of 50 tasks, and calls at most one tool of ten
# where none is expected. Of 50 tasks, chance moves a share of 0.9 by three tasks.
TRUSTED_SHARE, NEEDLESS_SHARE, NOISE = 0.85, 0.1, 3
_FALLBACKS = 2
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Score:
    """The counts of one model; `due` are the tasks with a call due, `quiet` the others."""

    model: str
    cloud: bool
    played: int
    right: int
    due: int
    right_tool: int
    right_arguments: int
    quiet: int
    needless: int
    garbled: int
    failed: int
    first_ms: Spread | None
    total_ms: Spread | None
    stopped: str

    @property
    def trusted(self) -> bool:
        """Whether it may be an orchestrator."""
        whole = self.played and not self.stopped
        return bool(
            whole
            and self.right >= TRUSTED_SHARE * self.played
            and self.needless <= NEEDLESS_SHARE * self.quiet
        )


def score(known: ModelResults, tasks: Sequence[Task]) -> Score:
    """Count the verdicts of one model."""
    due = {task.name for task in tasks if task.accept}
    results = [known.results[task.name] for task in tasks if task.name in known.results]
    with_call = [one.verdict for one in results if one.task in due]
    verdicts = [one.verdict for one in results]
    answered = [one for one in results if one.verdict != FAILED]
    return Score(
        known.model,
        known.cloud,
        played=len(results),
        right=verdicts.count("right"),
        due=len(with_call),
        right_tool=with_call.count("right") + with_call.count("wrong arguments"),
        right_arguments=with_call.count("right"),
        quiet=len(results) - len(with_call),
        needless=verdicts.count("needless"),
        garbled=verdicts.count("garbled"),
        failed=verdicts.count(FAILED),
        first_ms=spread([one.first_ms for one in answered if one.first_ms is not None]),
        total_ms=spread([one.total_ms for one in answered]),
        stopped=known.stopped,
    )


def summary(one: Score) -> dict[str, Any]:
    """Return what the agents' configuration is made from."""
    return {"right": one.right, "played": one.played, "trusted": one.trusted}


def ranking(scores: Iterable[Score]) -> list[Score]:
    """Return the trusted models, the best first: within the noise of the best, the fastest."""
    trusted = sorted((s for s in scores if s.trusted), key=lambda s: -s.right)
    if not trusted:
        return []
    near = [s for s in trusted if s.right >= trusted[0].right - NOISE]
    near.sort(key=lambda s: s.total_ms.median if s.total_ms else 0)
    return near + [s for s in trusted if s not in near]


def advice(scores: Sequence[Score], models: Iterable[str]) -> list[str]:
    """Return which model to make the orchestrator, and what to write for that.

    `models` are the names of models: an alias cannot be a member of one.
    """
    known = set(models)
    if not (found := ranking(scores)):
        need = f"right in {TRUSTED_SHARE:.0%} of the tasks, and at most 1 needless call in 10"
        return [
            f"No measured model can be trusted with tools ({need}).",
            "While one of them is the first of the alias orchestrator, the team routes by rules: "
            "run `sudo scripts/up`.",
        ]
    best = found[0]
    lines = [f"The best orchestrator here is {best.model}: {best.right} of {best.played} right."]
    if members := [one for one in found if one.model in known][: 1 + _FALLBACKS]:
        names = ", ".join(f'"{one.model}"' for one in members)
        cloud = "true" if any(one.cloud for one in members) else "false"
        lines += [
            "Write into inventory/local/aliases.yml, and run `sudo scripts/up`:",
            "aliases:",
            f"  orchestrator: {{members: [{names}], cloud: {cloud}}}",
        ]
    return lines


def document(report: AgentsReport, tasks: Sequence[Task], models: Iterable[str]) -> dict[str, Any]:
    """Return the report as plain JSON data, with the scores and the advice."""
    scores = [score(one, tasks) for one in report.models.values()]
    listed = [asdict(one) | {"trusted": one.trusted} for one in scores]
    found = ranking(scores)
    return {
        **asdict(report),
        "scores": listed,
        "best": found[0].model if found else None,
        "advice": advice(scores, models),
    }


def tables(report: AgentsReport, tasks: Sequence[Task], models: Iterable[str]) -> RenderableType:
    """Return the table, the mistakes and the advice."""
    scores = [score(one, tasks) for one in report.models.values()]
    order = [
        *ranking(scores),
        *sorted((s for s in scores if not s.trusted), key=lambda s: -s.right),
    ]
    rows = [_row(one) for one in order]
    heads = (
        "model",
        "right",
        "tool",
        "arguments",
        "needless",
        "garbled",
        "first ms",
        "whole ms",
        "",
    )
    wrong = [_mistakes(one, tasks) for one in report.models.values()]
    skipped = [f"{name} was not measured: {why}" for name, why in report.skipped.items()]
    stopped = [f"{one.model}: {one.stopped}" for one in scores if one.stopped]
    table = Section(f"{len(tasks)} tasks with the house's own tools", heads, rows, skipped, stopped)
    return terminal([table, *filter(None, wrong), Section(lines=advice(scores, models))])


def _row(one: Score) -> tuple[str, ...]:
    return (
        one.model,
        f"{one.right}/{one.played}",
        f"{one.right_tool}/{one.due}",
        f"{one.right_arguments}/{one.due}",
        f"{one.needless}/{one.quiet}",
        str(one.garbled),
        f"{one.first_ms.median:,.0f}" if one.first_ms else "-",
        f"{one.total_ms.median:,.0f}" if one.total_ms else "-",
        "reached" if one.trusted else "not reached",
    )


def _mistakes(known: ModelResults, tasks: Sequence[Task]) -> Section | None:
    due: Mapping[str, str] = {
        task.name: " or ".join(tool for tool, _ in task.accept) or "no call" for task in tasks
    }
    wrong = [one for one in known.results.values() if one.verdict != "right"]
    lines = [
        f"{one.task}: {one.verdict}, expected {due.get(one.task, '?')}"
        + (f"; got {one.did[:120]}" if one.did else "")
        for one in wrong[:_SHOWN]
    ]
    more = [f"and {len(wrong) - _SHOWN} more: see --json"] if len(wrong) > _SHOWN else []
    return Section(lines=[f"{known.model}:", *lines, *more]) if wrong else None

"""The cost of the chat: the first word in a page and from the gateway, for several people."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import RenderableType

from hearth.bench.llm import (
    PAIR_PROMPT,
    PAIR_TOKENS,
    WARM_UPS,
    EndpointFigures,
    endpoint_figures,
    fresh,
)
from hearth.bench.report import Ratio, missed, ratio
from hearth.bench.report.view import Section, middle, p95, ratio_section, terminal
from hearth.clients.llm import Measure, Sample
from hearth.clients.stats import Difference, Spread, paired_difference, spread

# Several people start within so long of each other, never in the same millisecond.
APART_S = 1.0
# What a person does not notice.
MEDIAN_MS, P95_MS = 60.0, 150.0
READY_S = 20.0
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class User:
    """One person, who calls the gateway directly and the chat in turns."""

    direct: Measure
    chat: Measure


@dataclass(frozen=True, slots=True)
class ChatProcess:
    """The chat's own process; `ready_s` is known only after a restart."""

    memory_bytes: int | None = None
    ready_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChatReport:
    """The results of `hearth bench chat`; `stopped` says why it has fewer rounds than planned.

    All start within `apart_s`. `added_ms` is of pairs within a round by their order: the first to
    wait least in the chat against the first directly, and so on. Who waits behind whom at the model
    is chance.
    """

    model: str
    users: int
    apart_s: float
    direct: EndpointFigures
    chat: EndpointFigures
    added_first_ms: Difference | None
    added_ms: Spread | None
    process: ChatProcess
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every question was answered and no target was missed."""
        answered = not self.stopped and not self.direct.failed and not self.chat.failed
        return answered and not missed(self.ratios, "chat")

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class _Rounds:
    """The results so far; kept outside the deadline, so that they outlive it."""

    direct: list[Sample] = field(default_factory=list)
    chat: list[Sample] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    ended: int = 0

    def add(self, direct: Sequence[Sample], chat: Sequence[Sample]) -> None:
        """Add one round; a failed answer has no partner."""
        self.direct += direct
        self.chat += chat
        self.pairs += zip(_first_ms(direct), _first_ms(chat), strict=False)
        self.ended += 1


async def bench_chat(
    model: str,
    users: Sequence[User],
    *,
    rounds: int = 20,
    apart_s: float = APART_S,
    timeout_s: float = 1800.0,
    process: ChatProcess = ChatProcess(),
    progress: Progress = lambda done, of: None,
) -> ChatReport:
    """Let all start within `apart_s`, directly and in the chat in turns; neither is always first.

    The first rounds load the model and are not counted. It ends after
    `timeout_s` with the results until then.
    """
    seen, stopped = _Rounds(), ""
    draw = random.Random(20261122)  # noqa: S311 - the same moments each time; it guards no secret
    try:
        async with asyncio.timeout(timeout_s):
            for number in range(-WARM_UPS, rounds):
                starts = [draw.uniform(0, apart_s) for _ in users]
                direct, chat = await _round(users, starts, first_chat=number % 2 == 1)
                if number >= 0:
                    seen.add(direct, chat)
                    progress(number + 1, rounds)
    except TimeoutError:
        stopped = f"ended after {timeout_s:g} s with {seen.ended} of {rounds} rounds"
    return _report((model, len(users), apart_s), seen, process, stopped)


async def _round(
    users: Sequence[User], starts: Sequence[float], *, first_chat: bool
) -> tuple[list[Sample], list[Sample]]:
    """Call both, each at the same moments."""
    if first_chat:
        chat = await _all([user.chat for user in users], starts)
        return await _all([user.direct for user in users], starts), chat
    direct = await _all([user.direct for user in users], starts)
    return direct, await _all([user.chat for user in users], starts)


async def _all(calls: Sequence[Measure], starts: Sequence[float]) -> list[Sample]:
    return list(await asyncio.gather(*map(_later, calls, starts)))


async def _later(way: Measure, after_s: float) -> Sample:
    await asyncio.sleep(after_s)
    return await way(fresh(PAIR_PROMPT), PAIR_TOKENS)


def _first_ms(samples: Sequence[Sample]) -> list[float]:
    return sorted(s.first_ms for s in samples if not s.error and s.first_ms is not None)


def _report(
    asked: tuple[str, int, float], seen: _Rounds, process: ChatProcess, stopped: str
) -> ChatReport:
    added = paired_difference(seen.pairs)
    each = spread([chat - direct for direct, chat in seen.pairs])
    n, none = len(seen.pairs), "no pair of answers came"
    what = "first word, in the chat - directly"
    rows = [
        ratio("chat", f"{what}, median", "ms", MEDIAN_MS, added.median if added else None, n, none),
        ratio("chat", f"{what}, p95", "ms", P95_MS, each.p95 if each else None, n, none),
    ]
    why = "it was not restarted: --restart"
    ready = process.ready_s
    rows.append(
        ratio("chat", "ready after a start", "s", READY_S, ready, int(ready is not None), why)
    )
    model, users, apart_s = asked
    return ChatReport(
        model=model,
        users=users,
        apart_s=apart_s,
        direct=endpoint_figures("directly", seen.direct),
        chat=endpoint_figures("in the chat", seen.chat),
        added_first_ms=added,
        added_ms=each,
        process=process,
        ratios=tuple(rows),
        stopped=stopped,
    )


def chat_view(report: ChatReport) -> RenderableType:
    """Return the figures of both endpoints, the cost and memory of the chat, and the errors."""
    rows = [
        (f.endpoint, str(f.calls - f.failed), str(f.failed) if f.failed else "", *_times(f))
        for f in (report.direct, report.chat)
    ]
    columns = ("asked", "n", "failed", "first word ms", "p95", "whole ms", "p95")
    size = report.process.memory_bytes
    lines = [added_text(report)]
    lines += [f"Its process has {size / 2**20:.0f} MiB of memory."] if size else []
    errors = dict.fromkeys([report.stopped, *report.direct.errors, *report.chat.errors])
    return terminal(
        [
            Section(f"{report.model}, {_crowd(report)}, medians", columns, rows),
            ratio_section(report.ratios, "chat"),
            Section(lines=lines, errors=[error for error in errors if error]),
        ]
    )


def _times(figures: EndpointFigures) -> list[str]:
    spreads = (figures.first_ms, figures.total_ms)
    return [text for s in spreads for text in (middle(s, 1), p95(s, 1))]


def added_text(report: ChatReport) -> str:
    """Return what the chat adds to the first word."""
    added = report.added_first_ms
    if added is None:
        return "The cost of the chat is not known: no pair of answers came."
    return (
        f"The chat adds {added.median:.1f} ms to the median first word "
        f"(95 %: {added.low:.1f} to {added.high:.1f} ms, {added.pairs} pairs)."
    )


def _crowd(report: ChatReport) -> str:
    if not report.apart_s:
        return f"{report.users} in the same instant"
    return f"{report.users} who start within {report.apart_s:g} s"

"""The cost of the chat: the first word in a page and from the gateway, for several people."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import RenderableType

from hearth.bench.llm import (
    PAIR_PROMPT,
    PAIR_TOKENS,
    TIMES,
    WARM_UPS,
    EndpointFigures,
    added_text,
    alternate,
    cells,
    errors_of,
    fresh,
)
from hearth.bench.report import Ratio, figures_of, missed, ratio
from hearth.bench.session import Progress
from hearth.bench.view import Section, ratio_section, terminal
from hearth.clients.llm import Measure, Sample
from hearth.clients.stats import Difference, Spread, paired_difference, spread

# Several people start within so long of each other, never in the same millisecond.
APART_S = 1.0
# What a person does not notice.
MEDIAN_MS, P95_MS = 60.0, 150.0
READY_S = 20.0

User = tuple[Measure, Measure]
"""One person, who calls the gateway directly and the chat in turns."""


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


async def bench_chat(
    model: str,
    users: Sequence[User],
    *,
    rounds: int = 20,
    apart_s: float = APART_S,
    timeout_s: float = 1800.0,
    process: ChatProcess = ChatProcess(),
    progress: Progress = lambda done, of, what: None,
) -> ChatReport:
    """Let all start within `apart_s`, directly and in the chat in turns; neither is always first.

    The first rounds load the model and are not counted. It ends after
    `timeout_s` with the results until then.
    """
    done: list[tuple[list[Sample], list[Sample]]] = []
    stopped = ""
    draw = random.Random(20261122)  # noqa: S311 - the same moments each time; it guards no secret
    try:
        async with asyncio.timeout(timeout_s):
            for number in range(-WARM_UPS, rounds):
                starts = [draw.uniform(0, apart_s) for _ in users]
                calls = (partial(_all, each, starts) for each in zip(*users, strict=True))
                both = await alternate(number, *calls)
                if number >= 0:
                    done.append(both)
                    progress(number + 1, rounds, "rounds")
    except TimeoutError:
        stopped = f"ended after {timeout_s:g} s with {len(done)} of {rounds} rounds"
    direct = [sample for samples, _ in done for sample in samples]
    chat = [sample for _, samples in done for sample in samples]
    # A failed answer has no partner.
    pairs = [pair for a, b in done for pair in zip(_first_ms(a), _first_ms(b), strict=False)]
    added, each_ms = paired_difference(pairs), spread([b - a for a, b in pairs])
    return ChatReport(
        model=model,
        users=len(users),
        apart_s=apart_s,
        direct=figures_of(EndpointFigures, direct, endpoint="directly"),
        chat=figures_of(EndpointFigures, chat, endpoint="in the chat"),
        added_first_ms=added,
        added_ms=each_ms,
        process=process,
        ratios=_ratios(added, each_ms, process.ready_s),
        stopped=stopped,
    )


async def _all(calls: Sequence[Measure], starts: Sequence[float]) -> list[Sample]:
    return list(await asyncio.gather(*map(_later, calls, starts)))


async def _later(measure: Measure, after_s: float) -> Sample:
    await asyncio.sleep(after_s)
    return await measure(fresh(PAIR_PROMPT), PAIR_TOKENS)


def _first_ms(samples: Sequence[Sample]) -> list[float]:
    return sorted(s.first_ms for s in samples if not s.error and s.first_ms is not None)


def _ratios(
    added: Difference | None, each: Spread | None, ready_s: float | None
) -> tuple[Ratio, ...]:
    what, why = "first word, in the chat - directly", "no pair of answers came"
    n, started = each.n if each else 0, int(ready_s is not None)
    unstarted = "it was not restarted: --restart"
    rows = (
        (f"{what}, median", "ms", MEDIAN_MS, added.median if added else None, n, why),
        (f"{what}, p95", "ms", P95_MS, each.p95 if each else None, n, why),
        ("ready after a start", "s", READY_S, ready_s, started, unstarted),
    )
    return tuple(ratio("chat", *row) for row in rows)


def chat_view(report: ChatReport) -> RenderableType:
    """Return the figures of both endpoints, the cost and memory of the chat, and the errors."""
    crowd = f"{report.users} in the same instant"
    if report.apart_s:
        crowd = f"{report.users} who start within {report.apart_s:g} s"
    columns = ("asked", "n", "failed", "first word ms", *TIMES)
    rows = [cells(figures) for figures in (report.direct, report.chat)]
    size = report.process.memory_bytes
    lines = [added_text(report.added_first_ms, "chat", "word")]
    lines += [f"Its process has {size / 2**20:.0f} MiB of memory."] if size else []
    errors = errors_of(report.stopped, report.direct, report.chat)
    return terminal(
        [
            Section(f"{report.model}, {crowd}, medians", columns, rows),
            ratio_section(report.ratios, "chat"),
            Section(lines=lines, errors=errors),
        ]
    )

"""The first word through the chat and straight from the gateway, for several people at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hearth.bench.llm import PAIR_PROMPT, PAIR_TOKENS, WARM_UPS, WayFigures, fresh, way_figures
from hearth.bench.served.ratios import Ratio, ratio
from hearth.clients.llm import Measure, Sample
from hearth.clients.stats import Difference, Spread, paired_difference, spread

# People who talk at one time begin within so long of each other; nobody hits the same millisecond.
APART_S = 1.0
# What a person does not notice.
MEDIAN_MS, P95_MS = 60.0, 150.0
READY_S = 20.0
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class User:
    """One person, who asks the gateway directly and the chat in turns."""

    direct: Measure
    chat: Measure


@dataclass(frozen=True, slots=True)
class Service:
    """What was seen of the chat's own process; `ready_s` only where it was started for it."""

    memory_bytes: int | None = None
    ready_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChatReport:
    """What `hearth bench chat` found; `stopped` says why it has fewer rounds than asked for.

    All begin within `apart_s`. `added_ms` is of pairs within a round by their order: the first to
    wait least in the chat against the first directly, and so on. Who waits behind whom at the model
    is chance.
    """

    model: str
    users: int
    apart_s: float
    direct: WayFigures
    chat: WayFigures
    added_first_ms: Difference | None
    added_ms: Spread | None
    service: Service
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Say whether every question was answered and nothing asked for was missed."""
        answered = not self.stopped and not self.direct.failed and not self.chat.failed
        return answered and not any(row.verdict == "not reached" for row in self.ratios)

    def as_json(self) -> dict[str, Any]:
        """Give the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class _Rounds:
    """What was measured so far; kept outside the deadline, so that it outlives it."""

    direct: list[Sample] = field(default_factory=list)
    chat: list[Sample] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    ended: int = 0

    def add(self, direct: Sequence[Sample], chat: Sequence[Sample]) -> None:
        """Take one round in; who failed has no partner."""
        self.direct += direct
        self.chat += chat
        self.pairs += zip(_times(direct), _times(chat), strict=False)
        self.ended += 1


async def bench_chat(
    model: str,
    users: Sequence[User],
    *,
    rounds: int = 20,
    apart_s: float = APART_S,
    timeout_s: float = 1800.0,
    service: Service = Service(),
    progress: Progress = lambda done, of: None,
) -> ChatReport:
    """Let all ask within `apart_s`, directly and in the chat in turns; neither is always first.

    The first rounds load the model and are not counted. After `timeout_s` it ends with what it has.
    """
    seen, stopped = _Rounds(), ""
    draw = random.Random(20261122)  # noqa: S311 - the same moments each time; it guards no secret
    try:
        async with asyncio.timeout(timeout_s):
            for number in range(-WARM_UPS, rounds):
                begin = [draw.uniform(0, apart_s) for _ in users]
                direct, chat = await _round(users, begin, first_chat=number % 2 == 1)
                if number >= 0:
                    seen.add(direct, chat)
                    progress(number + 1, rounds)
    except TimeoutError:
        stopped = f"ended after {timeout_s:g} s with {seen.ended} of {rounds} rounds"
    return _report((model, len(users), apart_s), seen, service, stopped)


async def _round(
    users: Sequence[User], begin: Sequence[float], *, first_chat: bool
) -> tuple[list[Sample], list[Sample]]:
    """Ask both ways, each at the same moments."""
    if first_chat:
        chat = await _all([user.chat for user in users], begin)
        return await _all([user.direct for user in users], begin), chat
    direct = await _all([user.direct for user in users], begin)
    return direct, await _all([user.chat for user in users], begin)


async def _all(ways: Sequence[Measure], begin: Sequence[float]) -> list[Sample]:
    return list(await asyncio.gather(*map(_later, ways, begin)))


async def _later(way: Measure, after_s: float) -> Sample:
    await asyncio.sleep(after_s)
    return await way(fresh(PAIR_PROMPT), PAIR_TOKENS)


def _times(samples: Sequence[Sample]) -> list[float]:
    return sorted(s.first_ms for s in samples if not s.error and s.first_ms is not None)


def _report(
    asked: tuple[str, int, float], seen: _Rounds, service: Service, stopped: str
) -> ChatReport:
    added = paired_difference(seen.pairs)
    each = spread([chat - direct for direct, chat in seen.pairs])
    n, none = len(seen.pairs), "no pair of answers came"
    what = "first word, in the chat - directly"
    rows = [
        ratio("chat", f"{what}, median", "ms", MEDIAN_MS, added.median if added else None, n, none),
        ratio("chat", f"{what}, p95", "ms", P95_MS, each.p95 if each else None, n, none),
    ]
    why = "it was not started anew: --restart"
    ready = service.ready_s
    rows.append(
        ratio("chat", "ready after a start", "s", READY_S, ready, int(ready is not None), why)
    )
    model, users, apart_s = asked
    return ChatReport(
        model=model,
        users=users,
        apart_s=apart_s,
        direct=way_figures("directly", seen.direct),
        chat=way_figures("in the chat", seen.chat),
        added_first_ms=added,
        added_ms=each,
        service=service,
        ratios=tuple(rows),
        stopped=stopped,
    )

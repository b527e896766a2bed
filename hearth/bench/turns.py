"""Calls of one model, directly and through the gateway or the chat in turns, and their cost."""

from __future__ import annotations

import asyncio
import random
import secrets
from asyncio import sleep
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hearth.bench.report import Figures, figures_of, good, values
from hearth.bench.session import Progress
from hearth.bench.view import Columns, Section, errors_of, middle, p95, table
from hearth.clients.llm import Measure, Sample, thought_alone
from hearth.clients.stats import Difference, Spread, paired_difference, spread

PAIR_PROMPT, PAIR_TOKENS = "Name one colour.", 16
WARM_UPS = 2
FIELDS = ("first_ms", "answer_ms", "total_ms", "tokens_per_s")
THOUGHT_ALONE = "thought_alone"
TIMES = (
    ("first token ms", middle("first_ms", 1)),
    ("p95", p95("first_ms", 1)),
    ("whole ms", middle("total_ms", 1)),
    ("p95", p95("total_ms", 1)),
)

User = tuple[Measure, Measure]
"""One person, who calls the model directly and through the gateway or the chat, in turns."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Calls of one model, directly and `through` the gateway or the chat, in turns.

    `added_ms` is of pairs within a round by their order: the first to wait least against the first
    directly, and so on. Who waits behind whom at the model is chance. `stopped` is the reason for
    an early end.
    """

    direct: Figures
    through: Figures
    added_first_ms: Difference | None
    added_ms: Spread | None
    stopped: str

    @property
    def fine(self) -> bool:
        """Whether every call was made and answered."""
        return not self.stopped and not self.direct.failed and not self.through.failed


def fresh(prompt: str) -> str:
    """Return the prompt with a unique start of constant length.

    Ollama caches the start of prompts; a repeated start would measure that cache.
    """
    return f"[{secrets.token_hex(4)}] {prompt}"


async def compare(
    users: Sequence[User],
    through: str,
    rounds: int,
    *,
    tokens: int = PAIR_TOKENS,
    prompt: str = PAIR_PROMPT,
    warm_ups: int = WARM_UPS,
    apart_s: float = 0.0,
    timeout_s: float = 1800.0,
    progress: Progress = lambda done, of, what: None,
) -> Comparison:
    """Let all users start within `apart_s`, on both paths in turns; neither is always first.

    The warm-ups load the model and are not counted. It ends after `timeout_s` with the results
    until then.
    """
    done: list[list[list[Sample]]] = []
    stopped = ""
    draw = random.Random(20261122)  # noqa: S311 - the same moments each time; it guards no secret

    async def call(measure: Measure, after_s: float) -> Sample:
        await sleep(after_s)
        return await measure(fresh(prompt), tokens)

    try:
        async with asyncio.timeout(timeout_s):
            for number in range(-warm_ups, rounds):
                starts = [draw.uniform(0, apart_s) for _ in users]
                paths = list(zip(*users, strict=True))
                order = -1 if number % 2 else 1
                both = [
                    list(await asyncio.gather(*map(call, path, starts))) for path in paths[::order]
                ]
                if number >= 0:
                    done.append(both[::order])
                    progress(number + 1, rounds, "rounds")
    except TimeoutError:
        stopped = f"ended after {timeout_s:g} s with {len(done)} of {rounds} rounds"
    # A failed answer has no partner.
    pairs = [pair for a, b in done for pair in zip(_first_ms(a), _first_ms(b), strict=False)]
    return Comparison(
        direct=_figures("direct", [sample for a, _ in done for sample in a]),
        through=_figures(through, [sample for _, b in done for sample in b]),
        added_first_ms=paired_difference(pairs),
        added_ms=spread([b - a for a, b in pairs]),
        stopped=stopped,
    )


def _figures(case: str, samples: Sequence[Sample]) -> Figures:
    return figures_of(case, samples, FIELDS, totals=(THOUGHT_ALONE,))


def _first_ms(samples: Sequence[Sample]) -> list[float]:
    return sorted(values(good(samples), "first_ms"))


def comparison_section(title: str, columns: Columns, calls: Comparison) -> Section:
    """Return the figures of both endpoints, and the errors."""
    both = (calls.direct, calls.through)
    errors = errors_of(calls.stopped, both)
    unanswered = int(sum(figures.totals.get(THOUGHT_ALONE, 0) for figures in both))
    lines = [f"{unanswered} of these answers: {thought_alone('the model')}."] if unanswered else []
    section = table(f"{title}, medians", columns, both, lambda case, _: case)
    return replace(section, lines=lines, errors=errors)


def added_text(added: Difference | None, by: str = "gateway", first: str = "token") -> str:
    """Return what the gateway, or the chat, adds to the first token."""
    if added is None:
        return f"The cost of the {by} is not known: no pair of calls succeeded."
    ratio = f", {added.ratio:.2f} times the direct call" if added.ratio else ""
    return (
        f"The {by} adds {added.median:.1f} ms to the median first {first} "
        f"(95 %: {added.low:.1f} to {added.high:.1f} ms, {added.pairs} pairs{ratio})."
    )

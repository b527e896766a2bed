"""The cost of the gateway: calls of one model, directly and through the gateway in turns."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import RenderableType

from hearth.bench.report import Figures, figures_of
from hearth.bench.session import Progress
from hearth.bench.view import Section, errors_of, middle, p95, table, terminal
from hearth.clients.llm import Measure, Sample
from hearth.clients.stats import Difference, paired_difference

# The three prompts that published figures are made with, and the tokens of their answers.
PROMPTS = {
    "short": (32, "What is 2 + 2? Answer in one word."),
    "reasoning": (
        256,
        "A shop sells pens at 3 for 4 euros and pads at 2.50 euros each. I buy 12 pens and 5 pads "
        "and pay with a 50 euro note. How much change do I get? Think step by step.",
    ),
    "coding": (256, "Write a Python function that returns Fibonacci numbers with memoisation."),
}
PAIR_PROMPT, PAIR_TOKENS = "Name one colour.", 16
WARM_UPS = 2
FIELDS = ("first_ms", "total_ms", "tokens_per_s")
TIMES = (
    ("first token ms", middle("first_ms", 1)),
    ("p95", p95("first_ms", 1)),
    ("whole ms", middle("total_ms", 1)),
    ("p95", p95("total_ms", 1)),
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PromptFigures:
    """One of the three prompts, on both endpoints."""

    prompt: str
    direct: Figures
    gateway: Figures


@dataclass(frozen=True, slots=True)
class LlmReport:
    """The results of `hearth bench llm`; `stopped` says why it has fewer calls than planned."""

    model: str
    direct: Figures
    gateway: Figures
    added_first_ms: Difference | None
    prompts: tuple[PromptFigures, ...] = ()
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every call was made and answered."""
        return not self.stopped and not self.direct.failed and not self.gateway.failed


def fresh(prompt: str) -> str:
    """Return the prompt with a unique start of constant length.

    Ollama caches the start of prompts; a repeated start would measure that cache.
    """
    return f"[{secrets.token_hex(4)}] {prompt}"


async def alternate(
    number: int, one: Callable[[], Awaitable[T]], other: Callable[[], Awaitable[T]]
) -> tuple[T, T]:
    """Call both, every second time in reverse order: none is always the first."""
    if number % 2:
        second = await other()
        return await one(), second
    first = await one()
    return first, await other()


async def bench_llm(
    model: str,
    direct: Measure,
    gateway: Measure,
    *,
    pairs: int = 100,
    prompt_runs: int = 3,
    timeout_s: float = 1800.0,
    progress: Progress = lambda done, of, what: None,
) -> LlmReport:
    """Measure both endpoints `pairs` times in turns, then the three prompts.

    The first calls load the model and are not counted. It ends after
    `timeout_s` with the results until then.
    """
    done: list[tuple[Sample, Sample]] = []
    prompts: dict[str, list[tuple[Sample, Sample]]] = {}
    stopped = ""

    async def pair(number: int, tokens: int, prompt: str) -> tuple[Sample, Sample]:
        return await alternate(
            number, lambda: direct(fresh(prompt), tokens), lambda: gateway(fresh(prompt), tokens)
        )

    try:
        async with asyncio.timeout(timeout_s):
            for number in range(-WARM_UPS, pairs):
                both = await pair(number, PAIR_TOKENS, PAIR_PROMPT)
                if number >= 0:
                    done.append(both)
                    progress(number + 1, pairs, "pairs")
            for name, asked in PROMPTS.items():
                for number in range(prompt_runs):
                    prompts.setdefault(name, []).append(await pair(number, *asked))
    except TimeoutError:
        stopped = f"ended after {timeout_s:g} s with {len(done)} of {pairs} pairs"
    # A pair counts only when both of its calls succeeded.
    first_ms = [
        (a.first_ms, b.first_ms)
        for a, b in done
        if not a.error and not b.error and a.first_ms is not None and b.first_ms is not None
    ]
    each = tuple(PromptFigures(name, *_both(samples)) for name, samples in prompts.items())
    return LlmReport(model, *_both(done), paired_difference(first_ms), each, stopped)


def _both(pairs: Sequence[tuple[Sample, Sample]]) -> tuple[Figures, Figures]:
    return (
        figures_of("direct", [a for a, _ in pairs], FIELDS),
        figures_of("gateway", [b for _, b in pairs], FIELDS),
    )


def llm_view(report: LlmReport) -> RenderableType:
    """Return the figures of both endpoints, the cost of the gateway, and the errors."""
    asked = [("one short answer", report.direct, report.gateway)]
    asked += [(each.prompt, each.direct, each.gateway) for each in report.prompts]
    columns = (*TIMES, ("tokens/s", middle("tokens_per_s", 1)))
    tables = (
        table(f"{report.model}, {what}, medians", columns, both, lambda case, _: case)
        for what, *both in asked
    )
    errors = errors_of(report.stopped, (report.direct, report.gateway))
    return terminal([*tables, Section(lines=[added_text(report.added_first_ms)], errors=errors)])


def added_text(added: Difference | None, by: str = "gateway", first: str = "token") -> str:
    """Return what the gateway, or the chat, adds to the first token."""
    if added is None:
        return f"The cost of the {by} is not known: no pair of calls succeeded."
    ratio = f", {added.ratio:.2f} times the direct call" if added.ratio else ""
    return (
        f"The {by} adds {added.median:.1f} ms to the median first {first} "
        f"(95 %: {added.low:.1f} to {added.high:.1f} ms, {added.pairs} pairs{ratio})."
    )

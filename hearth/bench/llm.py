"""The cost of the gateway: calls of one model, directly and through the gateway in turns."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hearth.clients.llm import Measure, Sample
from hearth.clients.stats import Difference, Spread, paired_difference, spread

# The three prompts that published figures are made with.
PROMPTS = {
    "short": "What is 2 + 2? Answer in one word.",
    "reasoning": (
        "A shop sells pens at 3 for 4 euros and pads at 2.50 euros each. I buy 12 pens and 5 pads "
        "and pay with a 50 euro note. How much change do I get? Think step by step."
    ),
    "coding": "Write a Python function that returns Fibonacci numbers with memoisation.",
}
PROMPT_TOKENS = {"short": 32, "reasoning": 256, "coding": 256}
PAIR_PROMPT = "Name one colour."
PAIR_TOKENS = 16
WARM_UPS = 2

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class EndpointFigures:
    """All calls of one endpoint; the spreads are of those that succeeded."""

    endpoint: str
    calls: int
    failed: int
    first_ms: Spread | None
    total_ms: Spread | None
    tokens_per_s: Spread | None
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptFigures:
    """One of the three prompts, on both endpoints."""

    prompt: str
    direct: EndpointFigures
    gateway: EndpointFigures


@dataclass(frozen=True, slots=True)
class LlmReport:
    """The results of `hearth bench llm`; `stopped` says why it has fewer calls than planned."""

    model: str
    direct: EndpointFigures
    gateway: EndpointFigures
    added_first_ms: Difference | None
    prompts: tuple[PromptFigures, ...] = ()
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every call was made and answered."""
        return not self.stopped and not self.direct.failed and not self.gateway.failed

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class _Calls:
    """The results so far; kept outside the deadline, so that they outlive it."""

    pairs: list[tuple[Sample, Sample]] = field(default_factory=list)
    prompts: dict[str, list[tuple[Sample, Sample]]] = field(default_factory=dict)


def fresh(prompt: str) -> str:
    """Return the prompt with a unique start of constant length.

    Ollama caches the start of prompts; a repeated start would measure that cache.
    """
    return f"[{secrets.token_hex(4)}] {prompt}"


async def bench_llm(
    model: str,
    direct: Measure,
    gateway: Measure,
    *,
    pairs: int = 100,
    prompt_runs: int = 3,
    timeout_s: float = 1800.0,
    progress: Progress = lambda done, of: None,
) -> LlmReport:
    """Measure both endpoints `pairs` times in turns, then the three prompts.

    The first calls load the model and are not counted. It ends after
    `timeout_s` with the results until then.
    """
    calls = _Calls()
    stopped = ""
    try:
        async with asyncio.timeout(timeout_s):
            for _ in range(WARM_UPS):
                await _pair(direct, gateway, PAIR_PROMPT, PAIR_TOKENS, 0)
            for number in range(pairs):
                pair = await _pair(direct, gateway, PAIR_PROMPT, PAIR_TOKENS, number)
                calls.pairs.append(pair)
                progress(number + 1, pairs)
            for name, prompt in PROMPTS.items():
                for number in range(prompt_runs):
                    pair = await _pair(direct, gateway, prompt, PROMPT_TOKENS[name], number)
                    calls.prompts.setdefault(name, []).append(pair)
    except TimeoutError:
        stopped = f"ended after {timeout_s:g} s with {len(calls.pairs)} of {pairs} pairs"
    return _report(model, calls, stopped)


def endpoint_figures(endpoint: str, samples: Sequence[Sample]) -> EndpointFigures:
    """Return the figures of many answers; each error is named once."""
    good = [sample for sample in samples if not sample.error]
    return EndpointFigures(
        endpoint=endpoint,
        calls=len(samples),
        failed=len(samples) - len(good),
        first_ms=spread([s.first_ms for s in good if s.first_ms is not None]),
        total_ms=spread([s.total_ms for s in good]),
        tokens_per_s=spread([s.tokens_per_s for s in good if s.tokens_per_s is not None]),
        errors=tuple(dict.fromkeys(s.error for s in samples if s.error)),
    )


async def _pair(
    direct: Measure, gateway: Measure, prompt: str, tokens: int, number: int
) -> tuple[Sample, Sample]:
    """Call both, every second time in reverse order: none is always the first."""
    if number % 2:
        through = await gateway(fresh(prompt), tokens)
        return await direct(fresh(prompt), tokens), through
    straight = await direct(fresh(prompt), tokens)
    return straight, await gateway(fresh(prompt), tokens)


def _report(model: str, calls: _Calls, stopped: str) -> LlmReport:
    # A pair counts only when both of its calls succeeded.
    first_ms = [
        (a.first_ms, b.first_ms)
        for a, b in calls.pairs
        if not a.error and not b.error and a.first_ms is not None and b.first_ms is not None
    ]
    direct, gateway = _both(calls.pairs)
    prompts = tuple(PromptFigures(name, *_both(pairs)) for name, pairs in calls.prompts.items())
    return LlmReport(model, direct, gateway, paired_difference(first_ms), prompts, stopped)


def _both(pairs: Sequence[tuple[Sample, Sample]]) -> tuple[EndpointFigures, EndpointFigures]:
    return (
        endpoint_figures("direct", [a for a, _ in pairs]),
        endpoint_figures("gateway", [b for _, b in pairs]),
    )


def llm_table(report: LlmReport) -> RenderableType:
    """Return the figures of both endpoints, the cost of the gateway, and the errors."""
    table = Table(
        *("calls of", "endpoint", "n", "failed"),
        *("first token ms", "p95", "whole ms", "p95", "tokens/s"),
        title=f"{report.model}, medians",
        box=None,
        pad_edge=False,
    )
    for figures in (report.direct, report.gateway):
        table.add_row("one short answer", *_row(figures))
    for prompt in report.prompts:
        for figures in (prompt.direct, prompt.gateway):
            table.add_row(prompt.prompt, *_row(figures))
    below = [Text(added_text(report.added_first_ms))]
    errors = dict.fromkeys(report.direct.errors + report.gateway.errors)
    below += [Text(line, style="red") for line in [report.stopped, *errors] if line]
    return Group(table, *below)


def added_text(added: Difference | None) -> str:
    """Return what the gateway adds to the first token."""
    if added is None:
        return "The cost of the gateway is not known: no pair of calls succeeded."
    ratio = f", {added.ratio:.2f} times the direct call" if added.ratio else ""
    return (
        f"The gateway adds {added.median:.1f} ms to the median first token "
        f"(95 %: {added.low:.1f} to {added.high:.1f} ms, {added.pairs} pairs{ratio})."
    )


def _row(figures: EndpointFigures) -> list[str]:
    return [
        figures.endpoint,
        str(figures.calls - figures.failed),
        str(figures.failed) if figures.failed else "",
        *_cells(figures.first_ms),
        *_cells(figures.total_ms),
        _cells(figures.tokens_per_s)[0],
    ]


def _cells(spread: Spread | None) -> tuple[str, str]:
    return (f"{spread.median:.1f}", f"{spread.p95:.1f}") if spread else ("-", "-")

"""What the gateway costs: the same model asked straight and through it, call by call in turn."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

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
class WayFigures:
    """All calls of one way; the spreads are of those that succeeded."""

    way: str
    calls: int
    failed: int
    first_ms: Spread | None
    total_ms: Spread | None
    tokens_per_s: Spread | None
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptFigures:
    """One of the three prompts, both ways."""

    prompt: str
    direct: WayFigures
    gateway: WayFigures


@dataclass(frozen=True, slots=True)
class LlmReport:
    """What `hearth bench llm` found; `stopped` says why it has fewer calls than asked for."""

    model: str
    direct: WayFigures
    gateway: WayFigures
    added_first_ms: Difference | None
    prompts: tuple[PromptFigures, ...] = ()
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Say whether every call was made and answered."""
        return not self.stopped and not self.direct.failed and not self.gateway.failed

    def as_json(self) -> dict[str, Any]:
        """Give the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class _Calls:
    """What was measured so far; kept outside the deadline, so that it outlives it."""

    pairs: list[tuple[Sample, Sample]] = field(default_factory=list)
    prompts: dict[str, list[tuple[Sample, Sample]]] = field(default_factory=dict)


def fresh(prompt: str) -> str:
    """Return the prompt with a beginning of its own, of constant length.

    Ollama keeps the beginning it has seen; a prompt that begins alike would measure that memory.
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
    """Measure both ways `pairs` times in turn, then the three prompts.

    The first calls load the model and are not counted. After `timeout_s` it ends with what it has.
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


def way_figures(way: str, samples: Sequence[Sample]) -> WayFigures:
    """Return the figures of many answers; errors are named once each."""
    good = [sample for sample in samples if not sample.error]
    return WayFigures(
        way=way,
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
    """Ask both ways, each second time in the other order: none always comes first."""
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


def _both(pairs: Sequence[tuple[Sample, Sample]]) -> tuple[WayFigures, WayFigures]:
    return (
        way_figures("direct", [a for a, _ in pairs]),
        way_figures("gateway", [b for _, b in pairs]),
    )

"""The comparison of two endpoints, with answers made up by the test."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import asdict, dataclass, field

import pytest
from rich.console import Console

from hearth.bench.turns import (
    TIMES,
    WARM_UPS,
    Comparison,
    added_text,
    compare,
    comparison_section,
    fresh,
)
from hearth.bench.view import terminal
from hearth.clients.llm import Sample
from hearth.clients.stats import paired_difference, spread


@dataclass
class Fake:
    """An endpoint whose first tokens come after the times given, in turn."""

    name: str
    first_ms: list[float]
    log: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    broken: frozenset[int] = frozenset()
    thinks: bool = False

    async def __call__(self, prompt: str, max_tokens: int) -> Sample:
        number = len(self.prompts)
        self.prompts.append(prompt)
        self.log.append(self.name)
        first = self.first_ms[number % len(self.first_ms)]
        error = "HTTP 500" if number in self.broken else ""
        answer_ms = None if self.thinks else first + 30
        return Sample(self.name, first, first + 90, 10, 100.0, "m", error, answer_ms)


def endpoints(direct: list[float], gateway: list[float]) -> tuple[Fake, Fake]:
    log: list[str] = []
    return Fake("direct", direct, log), Fake("gateway", gateway, log)


async def bench(direct: Fake, gateway: Fake, pairs: int) -> Comparison:
    return await compare([(direct, gateway)], "gateway", pairs)


def shown(calls: Comparison) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal([comparison_section("m", TIMES, calls)]))
    return console.export_text()


async def test_the_gateways_cost_is_the_difference_of_the_medians() -> None:
    direct, gateway = endpoints([10.0, 12.0, 14.0], [30.0, 32.0, 34.0])
    report = await bench(direct, gateway, 100)
    added = report.added_first_ms
    assert added is not None
    assert (added.pairs, added.median, added.low, added.high) == (100, 20, 20, 20)
    assert added.ratio == pytest.approx(32 / 12)
    first_ms = report.direct["first_ms"]
    assert first_ms is not None
    assert (first_ms.n, first_ms.p95) == (100, 14)
    assert report.fine
    assert "adds 20.0 ms" in added_text(added)


async def test_calls_alternate_and_neither_is_always_first() -> None:
    direct, gateway = endpoints([1.0], [2.0])
    await bench(direct, gateway, 4)
    counted = direct.log[2 * WARM_UPS :]
    assert counted == ["direct", "gateway", "gateway", "direct"] * 2


async def test_warm_ups_are_not_counted() -> None:
    direct, gateway = endpoints(
        [9999.0] * WARM_UPS + [10.0] * 50, [9999.0] * WARM_UPS + [11.0] * 50
    )
    report = await bench(direct, gateway, 10)
    first_ms = report.direct["first_ms"]
    assert first_ms is not None
    assert (report.direct.calls, first_ms.p95) == (10, 10)


async def test_no_two_prompts_begin_alike() -> None:
    direct, gateway = endpoints([1.0], [2.0])
    await bench(direct, gateway, 20)
    asked = direct.prompts + gateway.prompts
    assert len({prompt[:8] for prompt in asked}) == len(asked)
    assert len(fresh("x")) == len(fresh("x"))


async def test_a_failed_call_is_counted_named_and_takes_its_pair_along() -> None:
    direct, gateway = endpoints([10.0], [20.0])
    gateway.broken = frozenset({WARM_UPS, WARM_UPS + 1})
    report = await bench(direct, gateway, 10)
    assert (report.through.failed, report.through.errors) == (2, ("HTTP 500",))
    assert report.added_first_ms is not None
    assert report.added_first_ms.pairs == 8
    assert not report.fine


async def test_at_its_deadline_it_reports_what_it_has() -> None:
    direct, gateway = endpoints([10.0], [20.0])

    async def stuck(prompt: str, max_tokens: int) -> Sample:
        if len(gateway.prompts) >= WARM_UPS + 3:
            await asyncio.Event().wait()
        return await gateway(prompt, max_tokens)

    calls = await compare([(direct, stuck)], "gateway", 100, timeout_s=0.1)
    assert calls.stopped == "ended after 0.1 s with 3 of 100 rounds"
    assert calls.added_first_ms is not None
    assert (calls.added_first_ms.pairs, calls.fine) == (3, False)


async def test_a_run_without_an_answer_is_reported_and_shown() -> None:
    direct, gateway = endpoints([1.0], [1.0])
    direct.broken = frozenset(range(100))
    report = await bench(direct, gateway, 3)
    assert report.added_first_ms is None
    assert "HTTP 500" in shown(report)
    assert "no pair of calls succeeded" in added_text(report.added_first_ms)


async def test_all_of_it_is_json() -> None:
    direct, gateway = endpoints([1.0], [2.0])
    document = json.loads(json.dumps(asdict(await bench(direct, gateway, 2))))
    assert document["through"]["spreads"]["tokens_per_s"]["median"] == 100


async def test_thought_and_answer_are_timed_apart() -> None:
    direct, gateway = endpoints([10.0], [20.0])
    report = await bench(direct, gateway, 3)
    starts = [figures["answer_ms"] for figures in (report.direct, report.through)]
    assert [each.median for each in starts if each] == [40, 50]
    direct.thinks = True
    report = await bench(direct, gateway, 2)
    # An answer that used all its tokens for reasoning is no failure of the gateway.
    assert report.direct.totals["thought_alone"] == 2
    assert report.through.totals["thought_alone"] == 0
    assert "2 of these answers: the model used all its tokens for reasoning" in shown(report)
    assert report.fine


def test_the_interval_follows_the_pairs_and_not_the_drift_they_share() -> None:
    drifting = [(float(n), float(n) + 20) for n in range(100)]
    added = paired_difference(drifting)
    assert added is not None
    assert (added.low, added.high) == (20, 20)
    noisy = paired_difference([(10.0, 10.0 + n) for n in range(100)])
    assert noisy is not None
    assert noisy.low < noisy.median == 49.5 < noisy.high


def test_the_95th_percentile_is_a_value_that_was_seen() -> None:
    of_hundred = spread([float(n) for n in range(1, 101)])
    of_two = spread([1.0, 2.0])
    assert of_hundred is not None
    assert of_two is not None
    assert (of_hundred.p95, of_two.p95) == (95, 2)
    assert spread([]) is None

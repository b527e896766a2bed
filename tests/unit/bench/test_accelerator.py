"""The proof by speed, on an Ollama whose reading speeds the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from hearth.bench.accelerator import (
    CPU_KEEP_ALIVE,
    GPU_PROVEN,
    NO_GPU,
    NOT_MEASURED,
    judge,
    proof_text,
    prove,
)
from hearth.clients import ClientError


@dataclass
class Ollama:
    """Keeps one model loaded, with or without its card, as Ollama does."""

    card_per_s: float = 4000.0
    cpu_per_s: float = 100.0
    size: int = 1000
    on_card: int = 1000
    loaded: str = ""
    cached: int = 0
    generations: list[dict[str, Any]] = field(default_factory=list)
    fails_on_cpu: bool = False
    hangs_on_cpu: bool = False

    async def call(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        if path == "/api/ps":
            there = {"name": "m:latest", "size": self.size, "size_vram": self.on_card}
            return {"models": [there] if self.loaded else []}
        assert path == "/api/generate"
        assert body is not None
        if body.get("keep_alive") == 0:
            self.loaded = ""
            return {"done": True}
        return await self._generate(dict(body))

    async def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        layers = body.get("options", {}).get("num_gpu")
        # The real one does not load again for a request that names no number of layers.
        if not self.loaded or layers is not None:
            self.loaded = "cpu" if layers == 0 else "card"
        if "prompt" not in body:
            return {"done": True}
        if self.loaded == "cpu" and self.fails_on_cpu:
            raise ClientError("out of memory")
        if self.loaded == "cpu" and self.hangs_on_cpu:
            await asyncio.Event().wait()
        self.generations.append({**body, "on": self.loaded})
        count = len(body["prompt"].split())
        per_s = self.cpu_per_s if self.loaded == "cpu" else self.card_per_s
        return {
            "prompt_eval_count": count + self.cached,
            "prompt_eval_cached_count": self.cached,
            "prompt_eval_duration": round(count / per_s * 1e9),
        }


async def test_a_card_is_proven_by_its_speed() -> None:
    ollama = Ollama()
    proof = await prove(ollama.call, "m")
    assert (proof.verdict, proof.n) == (GPU_PROVEN, 4)
    assert proof.ratio == pytest.approx(40, rel=0.01)
    assert proof.deployed_tokens_per_s == pytest.approx(4000, rel=0.01)
    assert "gpu proven, 40.00 times the CPU" in proof_text(proof).plain


async def test_the_status_of_ollama_does_not_prove_a_card() -> None:
    proof = await prove(Ollama(card_per_s=110).call, "m")
    assert proof.verdict == NO_GPU
    assert "100 % of it on a card, which proves nothing" in proof.reason


async def test_without_weights_on_a_card_a_busy_cpu_is_no_card() -> None:
    proof = await prove(Ollama(card_per_s=300, on_card=0).call, "m")
    assert proof.verdict == NOT_MEASURED
    assert "too busy" in proof.reason


async def test_a_processors_own_buffers_are_no_card() -> None:
    """Ollama counts AMX buffers as a card's, and a busy CPU would then prove it."""
    proof = await prove(Ollama(card_per_s=300, on_card=30).call, "m", cardless=True)
    assert (proof.verdict, proof.card_percent) == (NOT_MEASURED, 0)
    assert "too busy" in proof.reason


async def test_load_that_comes_while_the_cpu_reads_is_no_card() -> None:
    ollama = Ollama(card_per_s=100, cpu_per_s=100)
    calls = 0

    async def call(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        nonlocal calls
        answer = await ollama.call(path, body)
        calls += "prompt" in (body or {})
        # After the first reading as deployed, some other program takes most of the machine.
        if "prompt_eval_duration" in answer and 6 <= calls <= 9:
            answer["prompt_eval_duration"] *= 4
        return answer

    proof = await prove(call, "m")
    assert proof.verdict == NOT_MEASURED
    assert "differ too much" in proof.reason


async def test_a_model_partly_on_the_card_is_reported_as_such() -> None:
    proof = await prove(Ollama(card_per_s=300, on_card=620).call, "m")
    assert proof.verdict == GPU_PROVEN
    assert "only 62 % of it is on the card" in proof.reason
    assert proof.card_percent == 62


async def test_a_model_that_reads_at_once_is_not_measured() -> None:
    proof = await prove(Ollama(card_per_s=1e6, cpu_per_s=1e5).call, "m")
    assert proof.verdict == NOT_MEASURED
    assert "too small to measure" in proof.reason


async def test_a_card_too_fast_to_time_is_proven_by_a_slow_cpu() -> None:
    proof = await prove(Ollama(card_per_s=1e6, cpu_per_s=500).call, "m")
    assert proof.verdict == GPU_PROVEN


async def test_prompts_begin_differently_and_remembered_tokens_are_no_reading() -> None:
    ollama = Ollama(cached=300)
    proof = await prove(ollama.call, "m")
    beginnings = [g["prompt"].split()[0] for g in ollama.generations]
    assert len(set(beginnings)) == len(beginnings)
    assert proof.deployed_tokens_per_s == pytest.approx(4000, rel=0.01)


async def test_longer_prompts_are_used_until_the_time_is_measurable() -> None:
    ollama = Ollama(card_per_s=100, cpu_per_s=50)
    await prove(ollama.call, "m")
    assert max(len(g["prompt"].split()) for g in ollama.generations) == 41
    fast = Ollama(card_per_s=1e5)
    await prove(fast.call, "m")
    assert max(len(g["prompt"].split()) for g in fast.generations) == 1601


@pytest.mark.parametrize("before", ["", "card", "cpu"])
async def test_afterwards_the_model_is_never_left_without_its_card(before: str) -> None:
    ollama = Ollama(loaded=before)
    proof = await prove(ollama.call, "m")
    assert proof.verdict == GPU_PROVEN
    assert ollama.loaded == ("card" if before else "")
    cpu = [g for g in ollama.generations if g["on"] == "cpu"]
    assert {g["keep_alive"] for g in cpu} == {CPU_KEEP_ALIVE}


async def test_a_failure_on_the_way_is_a_verdict_and_restores_too() -> None:
    ollama = Ollama(fails_on_cpu=True)
    proof = await prove(ollama.call, "m")
    assert (proof.verdict, proof.reason) == (NOT_MEASURED, "out of memory")
    assert ollama.loaded == ""


async def test_it_ends_at_its_deadline_and_restores() -> None:
    ollama = Ollama(hangs_on_cpu=True)
    proof = await prove(ollama.call, "m", timeout_s=0.1)
    assert proof.reason == "not done within 0.1 s"
    assert ollama.loaded == ""


async def test_an_answer_without_figures_is_not_measured() -> None:
    async def call(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return {}

    assert "did not report how fast" in (await prove(call, "m")).reason


def test_runs_that_differ_too_much_decide_nothing() -> None:
    deployed = [(100, s) for s in (0.2, 0.4, 0.6)]
    cpu = [(100, s) for s in (0.4, 0.6, 0.8)]
    proof = judge("m", deployed, cpu)
    assert proof.verdict == NOT_MEASURED
    assert "the runs differ too much: between 0.7 and 4.0 times" in proof.reason


def test_one_slow_run_of_five_does_not_hide_a_card() -> None:
    deployed = [(100, s) for s in (0.2, 0.2, 0.2, 0.2, 5.0)]
    cpu = [(100, s) for s in (0.6, 0.6, 0.6, 0.6, 0.1)]
    assert judge("m", deployed, cpu).verdict == GPU_PROVEN

"""Proves by speed whether a model computes on a card. The output of `ollama ps` proves nothing.

One model reads fresh prompts as it is deployed, then with `num_gpu: 0`, in one run. Prompt tokens
per second are compared, not generated ones: an iGPU shares its memory with the CPU, and may
generate no faster while it reads several times faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import secrets
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.text import Text

from hearth.clients import ClientError
from hearth.clients.llm import Device, JsonCall
from hearth.clients.models import key_of

GPU_PROVEN, NO_GPU, NOT_MEASURED = "gpu proven", "no gpu", "not measured"
SOFTWARE = "software"
RATIO = 1.5
# Below this the request's own overhead is a good part of what is timed.
FLOOR_S = 0.1
PROMPT_WORDS = (40, 200, 700, 1600)
# Two rounds of both: load that comes and goes on a busy machine must hit both readings on the CPU
# and neither of the others to look like a card. One round did call a busy CPU a card.
ROUNDS = 2
REPEATS = 3
UNLOAD_S = 60.0
# If this run is killed, a model without its card must not stay: Ollama would go on using it, for
# it does not load again when a later request names no number of layers.
CPU_KEEP_ALIVE = "60s"
_WORDS = "house river stone green seven light under paper window early number quiet".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Reads:
    """One reading of prompts: seconds and tokens of each, in the order measured."""

    tokens: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()

    def __add__(self, more: Reads) -> Reads:
        """Return both, one after the other."""
        return Reads(self.tokens + more.tokens, self.seconds + more.seconds)

    @property
    def tokens_per_s(self) -> float:
        """Return the median prompt tokens per second."""
        return statistics.median(n / s for n, s in zip(self.tokens, self.seconds, strict=True))


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured of one model; `ratio` is deployed ÷ CPU, in prompt tokens per second."""

    model: str
    verdict: str
    reason: str
    ratio: float | None = None
    deployed_tokens_per_s: float | None = None
    cpu_tokens_per_s: float | None = None
    n: int = 0
    size_bytes: int = 0
    card_bytes: int = 0
    devices: tuple[str, ...] = ()

    @property
    def card_percent(self) -> int | None:
        """Return how much of the model is on the card, None when Ollama does not report it."""
        return self.card_bytes * 100 // self.size_bytes if self.size_bytes else None

    def as_json(self) -> dict[str, Any]:
        """Return the proof as plain JSON data."""
        return asdict(self) | {"card_percent": self.card_percent}


async def prove(
    call: JsonCall,
    model: str,
    *,
    rounds: int = ROUNDS,
    repeats: int = REPEATS,
    timeout_s: float = 600.0,
) -> Proof:
    """Measure one model with and without its card; failures are a verdict, not an exception.

    It unloads the model after each reading, so other callers wait for it to load.
    """
    was_loaded = False
    try:
        async with asyncio.timeout(timeout_s):
            was_loaded = await _loaded(call, model) is not None
            return await _measure(call, model, rounds, repeats)
    except TimeoutError:
        return Proof(model, NOT_MEASURED, f"not done within {timeout_s:g} s")
    except ClientError as error:
        return Proof(model, NOT_MEASURED, str(error))
    finally:
        # Cancelled or not, the model must not stay loaded without its card.
        await asyncio.shield(_restore(call, model, was_loaded))


def judge(
    model: str, deployed: Reads, cpu: Reads, size_bytes: int = 0, card_bytes: int = 0
) -> Proof:
    """Return the verdict on two readings of the same model."""
    fast, slow = _per_token(deployed.seconds, deployed.tokens), _per_token(cpu.seconds, cpu.tokens)
    # A time below the floor is mostly overhead: for the proof it counts as the floor.
    floored = _per_token([max(s, FLOOR_S) for s in deployed.seconds], deployed.tokens)
    low, high = min(slow) / max(floored), max(slow) / min(fast)
    measured = Proof(
        model=model,
        verdict=NOT_MEASURED,
        reason="",
        ratio=statistics.median(slow) / statistics.median(fast),
        deployed_tokens_per_s=deployed.tokens_per_s,
        cpu_tokens_per_s=cpu.tokens_per_s,
        n=min(len(fast), len(slow)),
        size_bytes=size_bytes,
        card_bytes=card_bytes,
    )
    verdict, reason = _verdict(deployed, cpu, low, high)
    # Weights on a card prove nothing, but without any there is no card to prove.
    if verdict == GPU_PROVEN and measured.card_percent == 0:
        verdict, reason = NOT_MEASURED, "the machine is too busy: the CPU alone differs that much"
    reasons = [reason, _share(measured, verdict)]
    return replace(measured, verdict=verdict, reason="; ".join(filter(None, reasons)))


def on(proof: Proof, devices: Sequence[Device]) -> Proof:
    """Return the proof with the devices that Ollama logged; software is not a card at any speed."""
    named = replace(proof, devices=tuple(device.text for device in devices))
    software = [device.text for device in devices if device.software]
    if not software or len(software) < len(devices):
        return named
    return replace(named, verdict=SOFTWARE, reason=", ".join(software))


def _verdict(deployed: Reads, cpu: Reads, low: float, high: float) -> tuple[str, str]:
    if low >= RATIO:
        return GPU_PROVEN, f"reads at least {low:.1f} times as fast as on the CPU"
    if statistics.median(cpu.seconds) < FLOOR_S or statistics.median(deployed.seconds) < FLOOR_S:
        return NOT_MEASURED, "the model is too small to measure: it reads any prompt at once"
    if high < RATIO:
        return NO_GPU, f"reads at most {high:.1f} times as fast as on the CPU alone"
    return NOT_MEASURED, f"the runs differ too much: between {low:.1f} and {high:.1f} times"


def _share(proof: Proof, verdict: str) -> str:
    percent = proof.card_percent
    if not percent:
        return ""
    if verdict == GPU_PROVEN:
        return "" if percent >= 100 else f"only {percent} % of it lies on the card"
    return f"Ollama reports {percent} % of it on a card, which proves nothing"


def _per_token(seconds: Sequence[float], tokens: Sequence[int]) -> list[float]:
    """Return seconds per token, sorted; of five or more, the two outermost are left out."""
    each = sorted(s / n for s, n in zip(seconds, tokens, strict=True))
    return each[1:-1] if len(each) >= 5 else each


async def _measure(call: JsonCall, model: str, rounds: int, repeats: int) -> Proof:
    deployed, cpu = Reads(), Reads()
    there: Mapping[str, Any] = {}
    words = 0
    cpu_only = {"options": {"num_gpu": 0}, "keep_alive": CPU_KEEP_ALIVE}
    for _ in range(rounds):
        # Unloaded first: Ollama would go on with what a run before, or a killed one, has loaded.
        await _unload(call, model)
        await _read(call, model, 5, {})
        there = await _loaded(call, model) or {}
        words = words or await _enough_words(call, model)
        deployed += await _reads(call, model, words, repeats, {})
        await _read(call, model, 5, cpu_only)
        cpu += await _reads(call, model, words, repeats, cpu_only)
    return judge(
        model, deployed, cpu, int(there.get("size") or 0), int(there.get("size_vram") or 0)
    )


async def _enough_words(call: JsonCall, model: str) -> int:
    """Return the length of prompt that takes this model a measurable time."""
    for words in PROMPT_WORDS:
        _, seconds = await _read(call, model, words, {})
        if seconds >= FLOOR_S:
            return words
    return PROMPT_WORDS[-1]


async def _reads(
    call: JsonCall, model: str, words: int, repeats: int, more: Mapping[str, Any]
) -> Reads:
    each = [await _read(call, model, words, more) for _ in range(repeats)]
    return Reads(tuple(n for n, _ in each), tuple(s for _, s in each))


async def _read(
    call: JsonCall, model: str, words: int, more: Mapping[str, Any]
) -> tuple[int, float]:
    """Let the model read one fresh prompt; return the number of tokens read, and the seconds."""
    options = {"num_predict": 1, "temperature": 0, **more.get("options", {})}
    body = {"model": model, "prompt": prompt(words), "raw": True, "stream": False}
    answer = await call("/api/generate", {**body, **more, "options": options})
    # The count includes cached tokens, which cost nothing.
    tokens = int(answer.get("prompt_eval_count") or 0)
    tokens -= int(answer.get("prompt_eval_cached_count") or 0)
    seconds = int(answer.get("prompt_eval_duration") or 0) / 1e9
    if tokens <= 0 or seconds <= 0:
        raise ClientError(f"{model}: Ollama did not report how fast it read the prompt")
    return tokens, seconds


def prompt(words: int) -> str:
    """Return a prompt with a unique start, so that no cached prompt helps."""
    start = secrets.token_hex(6)
    draw = random.Random(start)  # noqa: S311 - filler text
    return " ".join([start, *(draw.choice(_WORDS) for _ in range(words))])


async def _loaded(call: JsonCall, model: str) -> dict[str, Any] | None:
    listed = (await call("/api/ps", None)).get("models") or ()
    return next((e for e in listed if key_of(str(e.get("name"))) == key_of(model)), None)


async def _unload(call: JsonCall, model: str) -> None:
    await call("/api/generate", {"model": model, "keep_alive": 0, "stream": False})
    try:
        async with asyncio.timeout(UNLOAD_S):
            for attempt in itertools.count():
                if await _loaded(call, model) is None:
                    return
                await asyncio.sleep(min(1.0, 0.05 * attempt))
    except TimeoutError as error:
        raise ClientError(f"{model}: Ollama did not unload it within {UNLOAD_S:g} s") from error


async def _restore(call: JsonCall, model: str, was_loaded: bool) -> None:
    with contextlib.suppress(ClientError):
        await _unload(call, model)
        if was_loaded:
            await call("/api/generate", {"model": model, "stream": False})


_STYLES = {GPU_PROVEN: "green", NO_GPU: "yellow", SOFTWARE: "yellow"}


def proof_text(proof: Proof) -> Text:
    """Return what a model computes on, and the proof."""
    known = proof.verdict != NOT_MEASURED and proof.ratio
    ratio = f", {proof.ratio:.2f} times the CPU" if known else ""
    speeds = ""
    if proof.deployed_tokens_per_s and proof.cpu_tokens_per_s:
        speeds = (
            f" ({proof.deployed_tokens_per_s:.0f} against {proof.cpu_tokens_per_s:.0f} prompt "
            f"tokens/s, n={proof.n})"
        )
    text = f"{proof.model}: {proof.verdict}{ratio}{speeds}: {proof.reason}"
    return Text(text, style=_STYLES.get(proof.verdict, ""))

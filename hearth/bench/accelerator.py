"""Proves by speed whether a model computes on a card. The output of `ollama ps` proves nothing.

One model reads fresh prompts as it is deployed, then with `num_gpu: 0`, in one run. Prompt tokens
per second are compared, not generated ones: an iGPU shares its memory with the CPU, and may
generate no faster while it reads several times faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

Read = tuple[int, float]
"""The tokens of a prompt, and the seconds of reading it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured of one model; `ratio` is deployed ÷ CPU, in prompt tokens per second.

    `card_percent` is how much of the model is on the card, None when Ollama does not report it.
    """

    model: str
    verdict: str
    reason: str
    ratio: float | None = None
    deployed_tokens_per_s: float | None = None
    cpu_tokens_per_s: float | None = None
    n: int = 0
    card_percent: int | None = None
    devices: tuple[str, ...] = ()


async def prove(
    call: JsonCall, model: str, *, cardless: bool = False, timeout_s: float = 600.0
) -> Proof:
    """Measure one model with and without its card; failures are a verdict, not an exception.

    It unloads the model after each reading, so other callers wait for it to load. What Ollama
    reports to be on the card of a `cardless` server is on none.
    """
    was_loaded = False
    try:
        async with asyncio.timeout(timeout_s):
            was_loaded = await loaded_entry(call, model) is not None
            return await _measure(call, model, cardless=cardless)
    except TimeoutError:
        return Proof(model, NOT_MEASURED, f"not done within {timeout_s:g} s")
    except ClientError as error:
        return Proof(model, NOT_MEASURED, str(error))
    finally:
        # Cancelled or not, the model must not stay loaded without its card.
        await asyncio.shield(_restore(call, model, was_loaded))


def judge(
    model: str, deployed: Sequence[Read], cpu: Sequence[Read], percent: int | None = None
) -> Proof:
    """Return the verdict on readings of the same model as deployed and on the CPU alone."""
    fast, slow = _per_token(deployed), _per_token(cpu)
    # A time below the floor is mostly overhead: for the proof it counts as the floor.
    floored = _per_token([(n, max(s, FLOOR_S)) for n, s in deployed])
    low, high = min(slow) / max(floored), max(slow) / min(fast)
    measured = Proof(
        model,
        NOT_MEASURED,
        f"the runs differ too much: between {low:.1f} and {high:.1f} times",
        ratio=statistics.median(slow) / statistics.median(fast),
        deployed_tokens_per_s=statistics.median(n / s for n, s in deployed),
        cpu_tokens_per_s=statistics.median(n / s for n, s in cpu),
        n=min(len(fast), len(slow)),
        card_percent=percent,
    )
    share = f"Ollama reports {percent} % of it on a card, which proves nothing" if percent else ""
    verdict, reason = NOT_MEASURED, measured.reason
    if low >= RATIO and percent == 0:
        # Weights on a card prove nothing, but without any there is no card to prove.
        reason = "the machine is too busy: the CPU's own speed varies that much"
    elif low >= RATIO:
        verdict, reason = GPU_PROVEN, f"reads at least {low:.1f} times as fast as on the CPU"
        whole = percent is None or percent >= 100
        share = "" if whole else f"only {percent} % of it is on the card"
    elif any(statistics.median(s for _, s in reads) < FLOOR_S for reads in (cpu, deployed)):
        reason = "the model is too small to measure: it reads any prompt at once"
    elif high < RATIO:
        verdict, reason = NO_GPU, f"reads at most {high:.1f} times as fast as on the CPU alone"
    return replace(measured, verdict=verdict, reason="; ".join(filter(None, [reason, share])))


def on(proof: Proof, devices: Sequence[Device]) -> Proof:
    """Return the proof with the devices that Ollama logged; software is not a card at any speed."""
    named = replace(proof, devices=tuple(device.text for device in devices))
    if not devices or not all(device.software for device in devices):
        return named
    return replace(named, verdict=SOFTWARE, reason=", ".join(named.devices))


def _per_token(reads: Sequence[Read]) -> list[float]:
    """Return seconds per token, sorted; of five or more, the two outermost are left out."""
    each = sorted(s / n for n, s in reads)
    return each[1:-1] if len(each) >= 5 else each


async def _measure(call: JsonCall, model: str, *, cardless: bool) -> Proof:
    deployed: list[Read] = []
    cpu: list[Read] = []
    there: Mapping[str, Any] = {}
    words = 0
    cpu_only: dict[str, Any] = {"options": {"num_gpu": 0}, "keep_alive": CPU_KEEP_ALIVE}
    for _ in range(ROUNDS):
        # Unloaded first: Ollama would go on with what a run before, or a killed one, has loaded.
        await unload(call, model)
        await _read(call, model, 5)
        there = await loaded_entry(call, model) or {}
        words = words or await _enough_words(call, model)
        deployed += [await _read(call, model, words) for _ in range(REPEATS)]
        await _read(call, model, 5, **cpu_only)
        cpu += [await _read(call, model, words, **cpu_only) for _ in range(REPEATS)]
    size, on_card = int(there.get("size") or 0), int(there.get("size_vram") or 0)
    on_card = 0 if cardless else on_card
    return judge(model, deployed, cpu, on_card * 100 // size if size else None)


async def _enough_words(call: JsonCall, model: str) -> int:
    """Return the length of prompt that takes this model a measurable time."""
    for words in PROMPT_WORDS:
        _, seconds = await _read(call, model, words)
        if seconds >= FLOOR_S:
            return words
    return PROMPT_WORDS[-1]


async def _read(
    call: JsonCall, model: str, words: int, options: Mapping[str, Any] | None = None, **more: Any
) -> Read:
    """Let the model read one fresh prompt, without the tokens that Ollama has cached."""
    body = {"model": model, "prompt": prompt(words), "raw": True, "stream": False, **more}
    body["options"] = {"num_predict": 1, "temperature": 0, **(options or {})}
    answer = await call("/api/generate", body)
    # The count includes cached tokens, which cost nothing.
    tokens = int(answer.get("prompt_eval_count") or 0)
    tokens -= int(answer.get("prompt_eval_cached_count") or 0)
    seconds = int(answer.get("prompt_eval_duration") or 0) / 1e9
    if tokens <= 0 or seconds <= 0:
        raise ClientError(f"{model}: Ollama did not report how fast it read the prompt")
    return tokens, seconds


def prompt(words: int) -> str:
    """Return a prompt with a unique start, so that no cached prompt helps."""
    return " ".join([secrets.token_hex(6), *(secrets.choice(_WORDS) for _ in range(words))])


async def loaded_entry(call: JsonCall, model: str) -> dict[str, Any] | None:
    """Return what Ollama says about a model in memory; None if it is not there."""
    listed = (await call("/api/ps", None)).get("models") or ()
    return next((e for e in listed if key_of(str(e.get("name"))) == key_of(model)), None)


async def unload(call: JsonCall, model: str) -> None:
    """Take a model out of memory, and return once it is; ClientError if that takes too long."""
    await call("/api/generate", {"model": model, "keep_alive": 0, "stream": False})
    try:
        async with asyncio.timeout(UNLOAD_S):
            for attempt in itertools.count():
                if await loaded_entry(call, model) is None:
                    return
                await asyncio.sleep(min(1.0, 0.05 * attempt))
    except TimeoutError as error:
        raise ClientError(f"{model}: Ollama did not unload it within {UNLOAD_S:g} s") from error


async def _restore(call: JsonCall, model: str, was_loaded: bool) -> None:
    with contextlib.suppress(ClientError):
        await unload(call, model)
        if was_loaded:
            await call("/api/generate", {"model": model, "stream": False})


_STYLES = {GPU_PROVEN: "green", NO_GPU: "yellow", SOFTWARE: "yellow"}


def proof_text(proof: Proof) -> Text:
    """Return what a model computes on, and the proof."""
    text = f"{proof.model}: {proof.verdict}"
    if proof.verdict != NOT_MEASURED and proof.ratio:
        text += f", {proof.ratio:.2f} times the CPU"
    if proof.deployed_tokens_per_s and proof.cpu_tokens_per_s:
        text += (
            f" ({proof.deployed_tokens_per_s:.0f} against {proof.cpu_tokens_per_s:.0f} prompt "
            f"tokens/s, n={proof.n})"
        )
    return Text(f"{text}: {proof.reason}", style=_STYLES.get(proof.verdict, ""))

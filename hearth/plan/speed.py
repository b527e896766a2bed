"""How fast a model answers, from the bytes that it moves; docs/planner.md explains each term.

All constants are here. None belongs to a model or to a product. `tests/fixtures/plan` has the
published rows that they were fitted on, and those that they never saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hearth.plan.machine import Place

Where = Literal["vram", "shared", "spilled", "cpu", "nowhere"]

# Share of the published bandwidth that a GPU's kernels reach at most.
_REACHED = 0.95
_REACHED_METAL = 0.87
# Slow memory comes with few cores, which keep too few reads in flight to use all of it: the
# reached share is bandwidth / (bandwidth + this), in bytes per second.
_HALF_DEDICATED, _HALF_SHARED, _HALF_METAL = 75e9, 40e9, 0.0
# The same on a processor, whose cores together read at most about this much.
_REACHED_CPU, _CORES_BYTES_PER_S = 0.70, 550e9
# Share of the host's bandwidth that its layers reach while a card computes the others.
_REACHED_SPILLED = 0.5
# Starting the kernels of one layer, in seconds: it does not depend on the layer's size.
_LAYER_S = {"cuda": 55e-6, "rocm": 64e-6, "vulkan": 64e-6, "metal": 100e-6, "cpu": 15e-6}
# A layer of experts also routes, gathers and adds up.
_MIXTURE = 1.55
# Below this share of active parameters a model is a mixture.
MIXTURE_BELOW = 0.9
# The smallest model of the published rows has a billion parameters. Far below that, what surrounds
# the model decides, and no speed is predicted for this house.
LEAST_PARAMETERS = 0.2e9
# Operations per byte of bandwidth that a GPU's matrix units reach, where nobody measured them.
_OPERATIONS_PER_BYTE = {"cuda": 90.0, "rocm": 60.0, "vulkan": 45.0, "metal": 22.0, "cpu": 6.0}
# Share of a processor's float32 matrix rate that quantised weights reach.
_PROMPT_SHARE = 0.5
# Reading a file into memory and unpacking it, beside the disk's own time.
_LOAD_BYTES_PER_S, _START_S = 4e9, 0.5
# The prompt of the first-token figure: a question with a page of history.
PROMPT_TOKENS = 512
# Half of the published rows' errors are within the first band, nine of ten within the second.
_BAND, _BAND_SPILLED, _BAND_ESTIMATED, _BAND_PROMPT = 1.25, 1.6, 1.7, 1.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one model moves: sizes in bytes, parameters as numbers.

    `cache_bytes` is the whole key-value cache, and `graph_bytes` what the runtime computes in.
    """

    parameters: float
    active_parameters: float
    weights_bytes: float
    active_bytes: float
    layers: int
    cache_bytes: float = 0
    graph_bytes: float = 0

    @property
    def is_mixture(self) -> bool:
        """Whether only some of the parameters take part in a token."""
        return self.active_parameters < MIXTURE_BELOW * self.parameters


@dataclass(frozen=True, slots=True)
class Band:
    """A figure with the range in which nine of ten measurements should lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How a model runs in a place; `on_host` is the share of its weights that the host computes.

    `first_token_s` is for a loaded model and a prompt of `PROMPT_TOKENS`. `load_s` is None where
    the disk is not known. All are None where the model fits nowhere.
    """

    where: Where
    on_host: float = 0.0
    tokens_per_s: Band | None = None
    prompt_tokens_per_s: Band | None = None
    first_token_s: Band | None = None
    load_s: Band | None = None


def speed_of(work: Work, place: Place, reserve_bytes: float = 0) -> Speed:
    """Return how fast a model answers in a place, of which `reserve_bytes` are for others."""
    room = min(place.memory_bytes - reserve_bytes, place.limit_bytes)
    needed = work.weights_bytes + work.cache_bytes + work.graph_bytes
    where, on_host = _where(work, place, room, needed)
    if where == "nowhere":
        return Speed(where=where)
    token_s = _token_s(work, place, on_host)
    prompt = _prompt_per_s(work, place, on_host)
    wide = _BAND_SPILLED if where == "spilled" else _BAND
    wide *= _BAND_ESTIMATED if place.is_estimated else 1
    first_s = PROMPT_TOKENS / prompt + token_s
    return Speed(
        where=where,
        on_host=on_host,
        tokens_per_s=_band(1 / token_s, wide),
        prompt_tokens_per_s=_band(prompt, _BAND_PROMPT),
        first_token_s=_band(first_s, _BAND_PROMPT),
        load_s=_load_s(work, place),
    )


def _where(work: Work, place: Place, room: float, needed: float) -> tuple[Where, float]:
    """Return where the model lies, and the share of its weights on the host."""
    fits: dict[str, Where] = {"dedicated": "vram", "shared": "shared"}
    if needed <= room:
        return ("cpu" if place.backend == "cpu" else fits[place.kind]), 0.0
    if place.kind == "shared" or not place.host_memory_bytes:
        return "nowhere", 0.0
    # The cache of a layer lies beside its weights; the graph needs its room on the card.
    layered = work.weights_bytes + work.cache_bytes
    on_host = min(1.0, 1 - max(0.0, room - work.graph_bytes) / layered)
    if layered * on_host > place.host_memory_bytes:
        return "nowhere", 0.0
    return "spilled", on_host


def reached_bytes_per_s(place: Place) -> float:
    """Return how fast a place's kernels read weights."""
    whole = place.bandwidth_bytes_per_s
    if place.backend == "cpu":
        return _REACHED_CPU * whole / (1 + whole / _CORES_BYTES_PER_S)
    if place.backend == "metal":
        return _REACHED_METAL * whole * whole / (whole + _HALF_METAL)
    # A shared memory is slow for the processor's sake; CUDA's integrated GPUs are full-size ones.
    is_integrated = place.kind == "shared" and place.backend != "cuda"
    half = _HALF_SHARED if is_integrated else _HALF_DEDICATED
    return _REACHED * whole * whole / (whole + half)


def _token_s(work: Work, place: Place, on_host: float) -> float:
    """Return the seconds of one generated token."""
    layer_s = work.layers * _LAYER_S[place.backend] * (_MIXTURE if work.is_mixture else 1)
    seconds = layer_s + work.active_bytes * (1 - on_host) / reached_bytes_per_s(place)
    if on_host:
        # llama.cpp computes these layers on the host; the bus carries only activations.
        reached = place.host_bandwidth_bytes_per_s * _REACHED_SPILLED
        seconds += work.active_bytes * on_host / reached
    return seconds


def _prompt_per_s(work: Work, place: Place, on_host: float) -> float:
    """Return the prompt tokens per second: two operations for each active parameter."""
    operations = 2 * work.active_parameters
    estimated = place.bandwidth_bytes_per_s * _OPERATIONS_PER_BYTE[place.backend]
    measured = place.matrix_per_s * (_PROMPT_SHARE if place.backend == "cpu" else 1)
    seconds = operations * (1 - on_host) / (measured or estimated)
    # For a whole batch of the prompt, the layers on the host are copied to the card.
    seconds += on_host * work.weights_bytes / (place.bus_bytes_per_s or 12e9) / PROMPT_TOKENS
    return 1 / seconds


def _load_s(work: Work, place: Place) -> Band | None:
    """Return the seconds from a cold file to a model that answers."""
    if not place.disk_bytes_per_s:
        return None
    per_byte = 1 / place.disk_bytes_per_s + 1 / _LOAD_BYTES_PER_S
    if place.kind == "dedicated":
        per_byte += 1 / (place.bus_bytes_per_s or 12e9)
    return _band(_START_S + work.weights_bytes * per_byte, _BAND_PROMPT)


# A draft model guesses so many tokens, of which a share is right; checking them costs a little more
# than one token.
_GUESSES, _RIGHT, _CHECK = 4, 0.7, 1.1


def with_draft(tokens_per_s: float, draft_tokens_per_s: float) -> float:
    """Return the tokens per second of a dense model whose next tokens a small one guesses."""
    kept = (1 - _RIGHT ** (_GUESSES + 1)) / (1 - _RIGHT)
    round_s = _GUESSES / draft_tokens_per_s + _CHECK / tokens_per_s
    return max(tokens_per_s, kept / round_s)


def _band(value: float, wide: float) -> Band:
    return Band(value, value / wide, value * wide)

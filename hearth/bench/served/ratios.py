"""What a server should reach, what it reached, and how that is known."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hearth.clients.stats import spread

Verdict = Literal["reached", "not reached", "not measured"]
# Below this a 99th percentile says nothing.
_ENOUGH_HEALTH = 20


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure that a server should reach, what it reached, and how that is known."""

    what: str
    server: str
    unit: str
    reach: float
    value: float | None
    n: int
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Health:
    """How long `GET /health` took while the server spoke; `failed` had no answer at all."""

    n: int
    failed: int
    median_ms: float
    p99_ms: float
    worst_ms: float


def health_of(seconds: Sequence[float | None]) -> Health | None:
    """Return how long the questions for health took, None for no question; None was no answer."""
    if not seconds:
        return None
    good = sorted(s * 1000 for s in seconds if s is not None)
    middle = spread(good)
    if middle is None:
        return Health(0, len(seconds), 0.0, 0.0, 0.0)
    rank = -(-99 * len(good) // 100) - 1
    return Health(len(good), len(seconds) - len(good), middle.median, good[rank], good[-1])


def ratio(
    server: str, what: str, unit: str, reach: float, value: float | None, n: int, none: str
) -> Ratio:
    """Return a ratio with its verdict; `none` says why there is no value."""
    verdict: Verdict = "not measured"
    if value is not None:
        verdict = "reached" if value <= reach else "not reached"
    return Ratio(what, server, unit, reach, value, n, verdict, none if value is None else "")


def health_ratio(server: str, what: str, did: str, seconds: Sequence[float | None]) -> Ratio:
    """Return the ratio of the questions for health that were asked while the server `did` it."""
    health = health_of(seconds) or Health(0, 0, 0.0, 0.0, 0.0)
    enough = health.n >= _ENOUGH_HEALTH
    if not health.failed:
        why = f"only {health.n} answers came while it {did}"
        return ratio(server, what, "ms", 50.0, health.p99_ms if enough else None, health.n, why)
    why = f"{health.failed} of {health.n + health.failed} questions had no answer"
    return Ratio(what, server, "ms", 50.0, health.p99_ms, health.n, "not reached", why)


def middle(values: Sequence[float]) -> float | None:
    """Return the median, None of nothing."""
    return statistics.median(values) if values else None

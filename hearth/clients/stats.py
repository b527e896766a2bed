"""The few statistics that the figures stand on."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Spread:
    """One measured quantity; `p95` is the value that 95 of 100 do not exceed."""

    n: int
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two medians of paired values with its 95 % interval, and their ratio."""

    pairs: int
    median: float
    low: float
    high: float
    ratio: float | None


def spread(values: Sequence[float]) -> Spread | None:
    """Return n, median and 95th percentile (nearest rank: a value that was seen), or None."""
    if not values:
        return None
    ordered = sorted(values)
    rank = -(-95 * len(ordered) // 100) - 1
    return Spread(len(ordered), statistics.median(ordered), ordered[max(0, rank)])


def paired_difference(
    pairs: Sequence[tuple[float, float]], resamples: int = RESAMPLES
) -> Difference | None:
    """Return median(second) - median(first) with a bootstrap over the pairs; None without pairs.

    Pairs are drawn, not single values: what slowed both calls of a pair is no difference.
    """
    if not pairs:
        return None
    # The same figures must give the same interval, so the draw is seeded; it guards no secret.
    draw = random.Random(20261121)  # noqa: S311
    drawn = sorted(_difference(draw.choices(pairs, k=len(pairs))) for _ in range(resamples))
    first = statistics.median(a for a, _ in pairs)
    second = statistics.median(b for _, b in pairs)
    return Difference(
        pairs=len(pairs),
        median=second - first,
        low=drawn[round(0.025 * (resamples - 1))],
        high=drawn[round(0.975 * (resamples - 1))],
        ratio=second / first if first > 0 else None,
    )


def _difference(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(b for _, b in pairs) - statistics.median(a for a, _ in pairs)

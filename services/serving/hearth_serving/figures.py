"""The last values of what is measured, and what the status says of them."""

import math
from collections import deque
from collections.abc import Sequence

_KEPT = 500


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return how many values there are, their median and the 95th percentile (nearest rank)."""
    ranked = sorted(values)
    if not ranked:
        return {"n": 0, "median": None, "p95": None}

    def at(share: float) -> float:
        return round(ranked[max(0, math.ceil(share * len(ranked)) - 1)], 4)

    return {"n": len(ranked), "median": at(0.5), "p95": at(0.95)}


def recent() -> deque[float]:
    """Return what keeps the last 500 values."""
    return deque(maxlen=_KEPT)

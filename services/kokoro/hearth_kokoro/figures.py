"""What the status page and the metrics say about speaking."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_KEPT = 500


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return how many values there are, their median and the 95th percentile (nearest rank)."""
    ranked = sorted(values)
    if not ranked:
        return {"n": 0, "median": None, "p95": None}

    def at(share: float) -> float:
        return round(ranked[max(0, math.ceil(share * len(ranked)) - 1)], 4)

    return {"n": len(ranked), "median": at(0.5), "p95": at(0.95)}


def _recent() -> deque[float]:
    return deque(maxlen=_KEPT)


@dataclass(slots=True)
class Figures:
    """Counts requests and keeps the last 500 times; used by the event loop alone."""

    done: int = 0
    failed: int = 0
    left: int = 0
    refused: int = 0
    ttfa_ms: deque[float] = field(default_factory=_recent)
    rtf: deque[float] = field(default_factory=_recent)

    def requests(self) -> dict[str, int]:
        """Return how requests ended."""
        return {
            "done": self.done,
            "failed": self.failed,
            "left": self.left,
            "refused": self.refused,
        }

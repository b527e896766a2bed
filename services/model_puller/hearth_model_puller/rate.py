"""How fast a download is now: bytes per second over its last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW_S = 20.0


class Rate:
    """Bytes per second over a sliding window, from counts that only grow."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Start with an empty window on the clock given."""
        self._monotonic = monotonic
        self._seen: deque[tuple[float, int]] = deque()

    def take(self, count: int) -> None:
        """Take in how many bytes there are now. What was on disk before the start counts not."""
        now = self._monotonic()
        self._seen.append((now, count))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()

    def per_s(self) -> float:
        """Return the bytes per second, 0 when nothing can be said yet."""
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return max(0.0, (last - first) / (end - start)) if end > start else 0.0

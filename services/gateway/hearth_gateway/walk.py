"""Which members may answer a request, in which order, and for how long each may think."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


class Rests:
    """Remembers which members failed a moment ago, so that callers need not wait for them."""

    def __init__(self, rest_s: float = 30, clock: Callable[[], float] = time.monotonic) -> None:
        """A member that failed rests `rest_s` seconds."""
        self._rest_s, self._clock = rest_s, clock
        self._until: dict[str, float] = {}

    def failed(self, member: str) -> None:
        """Let `member` rest from now on."""
        self._until[member] = self._clock() + self._rest_s

    def answered(self, member: str) -> None:
        """Forget that `member` ever failed."""
        self._until.pop(member, None)

    def order(self, members: Sequence[str]) -> list[str]:
        """Return all of `members`: the rested ones first, in their order, the resting ones last."""
        now = self._clock()
        return sorted(members, key=lambda member: self._until.get(member, 0) > now)

"""Which members may answer a request, in which order, and for how long each may think."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

SLOW_STATUS = frozenset({408, 429, 504})
NOT_THERE = 404


class Rests:
    """Remembers which members kept callers waiting, so that the next ones need not wait too."""

    def __init__(self, rest_s: float = 30, clock: Callable[[], float] = time.monotonic) -> None:
        """A member that was too slow or asked for patience rests `rest_s` seconds."""
        self._rest_s, self._clock = rest_s, clock
        self._until: dict[str, float] = {}

    def failed(self, member: str, status: int, sent_much: bool = False) -> None:
        """Let `member` rest from now on, if asking it again at once would cost more than a moment.

        A refused connection or a 500 comes back at once, and may have been this one request's. Of
        a server that has not chosen this model nobody knows it before all was sent (`sent_much`).
        """
        if status in SLOW_STATUS or (sent_much and status == NOT_THERE):
            self._until[member] = self._clock() + self._rest_s

    def answered(self, member: str) -> None:
        """Forget that `member` ever failed."""
        self._until.pop(member, None)

    def order(self, members: Sequence[str]) -> list[str]:
        """Return all of `members`: the rested ones first, in their order, the resting ones last."""
        now = self._clock()
        return sorted(members, key=lambda member: self._until.get(member, 0) > now)

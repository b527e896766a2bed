"""Which members may answer a request, in which order, and for how long each may think."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

SLOW_STATUS = frozenset({408, 429, 504})
NOT_THERE = 404


class Rests:
    """Remembers which members failed, so that the next callers need not find out anew."""

    def __init__(
        self,
        rest_s: float = 30,
        brief_s: float = 5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A member that cost time or words rests `rest_s` seconds, any other `brief_s`."""
        self._rest_s, self._brief_s, self._clock = rest_s, brief_s, clock
        self._until: dict[str, float] = {}

    def failed(self, member: str, status: int, sent_much: bool = False, cut: bool = False) -> None:
        """Let `member` rest from now on.

        Long where asking it again at once would cost a caller more than a moment: it was too slow,
        asked for patience, left half an answer (`cut`), or has not chosen this model, which nobody
        knows before all was sent (`sent_much`). Briefly where it failed at once: that costs
        nobody anything, and may have been this one request's own fault.
        """
        long = cut or status in SLOW_STATUS or (sent_much and status == NOT_THERE)
        rest_s = self._rest_s if long else self._brief_s
        # A brief failure does not shorten a long rest.
        self._until[member] = max(self._until.get(member, 0), self._clock() + rest_s)

    def answered(self, member: str) -> None:
        """Forget that `member` ever failed."""
        self._until.pop(member, None)

    def order(self, members: Sequence[str]) -> list[str]:
        """Return all of `members`: the rested ones first, in their order, the resting ones last."""
        now = self._clock()
        return sorted(members, key=lambda member: self._until.get(member, 0) > now)

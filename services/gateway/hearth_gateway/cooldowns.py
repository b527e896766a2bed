"""Cooldowns: a member that failed is tried last for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

SLOW_STATUS = frozenset({408, 429, 504})
NOT_FOUND = 404


class Cooldowns:
    """The members that failed lately, so that the next callers do not wait for them."""

    def __init__(
        self,
        long_s: float = 30,
        short_s: float = 5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._long_s, self._short_s, self._clock = long_s, short_s, clock
        self._until: dict[str, float] = {}

    def failed(
        self, member: str, status: int, recording: bool = False, interrupted: bool = False
    ) -> None:
        """Start a cooldown for `member`.

        It is long where a retry costs the next caller more than a moment: the member was too slow,
        returned 429, sent half an answer (`interrupted`), or has not this model, which shows only
        after a whole `recording` was sent. It is short where the member failed at once: a retry is
        cheap, and this one request may have caused the failure.
        """
        long = interrupted or status in SLOW_STATUS or (recording and status == NOT_FOUND)
        cooldown_s = self._long_s if long else self._short_s
        # A short cooldown does not end a long one early.
        self._until[member] = max(self._until.get(member, 0), self._clock() + cooldown_s)

    def answered(self, member: str) -> None:
        """End the cooldown of `member`."""
        self._until.pop(member, None)

    def order(self, members: Sequence[str]) -> list[str]:
        """Return all of `members` in their order, those in a cooldown last."""
        now = self._clock()
        return sorted(members, key=lambda member: self._until.get(member, 0) > now)

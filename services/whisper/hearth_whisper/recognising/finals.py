"""Finals one after another: those that somebody waits for first, and the talkers by turns."""

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Talker:
    """Somebody whose finals take turns with those of others."""

    served: int = 0
    """The number of his last one; whose is the lowest is next."""


@dataclass(slots=True, eq=False)
class Claim:
    """Whose final it is, and whether he waits for it."""

    talker: Talker = field(default_factory=Talker)
    due: bool = True
    """False while he may still speak on, which makes it worthless; it may become due in line."""


class Finals:
    """One thread, and who waits for it."""

    def __init__(self) -> None:
        """Begin with a free thread."""
        self._pool = ThreadPoolExecutor(1, "final")
        self._waiting: list[tuple[Claim, asyncio.Future[None]]] = []
        self._numbers = itertools.count(1)
        self._taken = False

    async def run(self, claim: Claim, do: Callable[[], T]) -> T:
        """Do it when it is its turn; raises RuntimeError once it is closed."""
        await self._enter(claim)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, do)
        except RuntimeError:
            self._leave()
            raise
        # Whoever leaves meanwhile leaves the thread in its step: until that ends, it is taken.
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def close(self) -> None:
        """Begin no other; blocks until what runs has ended."""
        self._pool.shutdown(cancel_futures=True)

    async def _enter(self, claim: Claim) -> None:
        if not self._taken:
            self._take(claim)
            return
        place = claim, asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place[1]
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            else:  # he left in the moment when it was his turn
                self._leave()
            raise

    def _take(self, claim: Claim) -> None:
        self._taken, claim.talker.served = True, next(self._numbers)

    def _leave(self) -> None:
        """Let in whoever is next."""
        self._taken = False
        if self._waiting:
            # Of equal ones the first that came.
            place = min(self._waiting, key=lambda one: (not one[0].due, one[0].talker.served))
            self._waiting.remove(place)
            self._take(place[0])
            place[1].set_result(None)

    def _ended(self, running: asyncio.Future[T]) -> None:
        if not running.cancelled():
            running.exception()
        self._leave()

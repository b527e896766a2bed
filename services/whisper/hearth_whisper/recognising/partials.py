"""Partials cost less than they give: one at a time, a share of the time, never before finals."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hearth_serving.errors import ServiceError, log_unexpected
from hearth_serving.metrics import recent, summary
from hearth_whisper.recognising import Stop, Stopped
from hearth_whisper.recognising.steps import Clock, Steps
from hearth_whisper.recognising.whole import WholeText

log = logging.getLogger(__name__)

Make = Callable[[Stop], WholeText]


class Partials:
    """Who may have a partial now; nobody ever waits for one."""

    def __init__(self, steps: Steps, share: float, clock: Clock) -> None:
        """Take the finals' place, which files leave meanwhile, and the share of time."""
        self._steps, self._share, self._clock = steps, share, clock
        self._pool = ThreadPoolExecutor(1, "partial")
        self._running = self._closed = self._failing = False
        self._stop = Stop()
        self._left: asyncio.Event | None = None
        self._not_before = 0.0
        self._seconds = recent()
        self._made = self._refused = self._given_up = 0

    @property
    def is_running(self) -> bool:
        """Whether its thread is busy, given up or not."""
        return self._running

    async def make(self, do: Make) -> WholeText | None:
        """Return what `do` makes; None at once if it is not the time, or when a final comes."""
        if self._running or self._closed or self._clock() < self._not_before:
            self._refused += 1
            return None
        self._running, self._stop, self._left = True, Stop(), asyncio.Event()
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._pool, self._make, do, self._stop)
        # The thread may need a while to end; until then nobody has another one.
        running.add_done_callback(self._ended)
        left = asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait((running, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            if not running.done():
                self._stop.set()
        if not running.done() or (done := running.result()) is None:
            self._given_up += 1
            return None
        self._made += 1
        return done

    def give_way(self) -> None:
        """Stop what runs: a final comes. Its own threads yield the processors at once."""
        self._stop.set()
        if self._left:
            self._left.set()

    def close(self) -> None:
        """Stop what runs, and begin no other."""
        self._closed = True
        self.give_way()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def describe(self) -> dict[str, Any]:
        """Return how many were made, were not begun, and were given up for a final."""
        return {
            "made": self._made,
            "refused": self._refused,
            "given_up": self._given_up,
            "share": self._share,
            "seconds": summary(self._seconds),
        }

    def _make(self, do: Make, stop: Stop) -> WholeText | None:
        began = self._clock()
        try:
            with self._steps.without_files():
                done = do(stop)
            self._seconds.append(done.seconds)
            self._failing = False
        except Stopped:
            return None
        except Exception as error:  # the final will say it to whoever waits
            self._fail(error)
            return None
        finally:
            now = self._clock()
            self._not_before = now + (now - began) * (1 / self._share - 1)
        return done

    def _fail(self, error: Exception) -> None:
        """Say it once, until one succeeds: the next try is a moment away."""
        if self._failing:
            return
        self._failing = True
        if isinstance(error, ServiceError):
            log.warning("a partial result failed: %s", error)
        else:
            log_unexpected(error)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        if not running.cancelled():
            running.exception()
        self._running = False

"""Who uses the model next: one computation at a time, finals before files."""

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar

from hearth_whisper.recognition import RecognitionCancelled

T = TypeVar("T")
FINAL, FILE = 0, 1
"""Priorities; the smallest is served first."""

Clock = Callable[[], float]
"""Returns seconds that only grow; time.perf_counter, or a test's own."""


class PriorityLock:
    """A lock on the model: by priority, and first come, first served within a priority."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int]] = []
        self._numbers = itertools.count()
        self._taken = self._final = False
        self._pauses = 0

    @property
    def waiting(self) -> int:
        """How many threads wait for the lock."""
        with self._changed:
            return len(self._waiting)

    @contextmanager
    def hold(self, priority: int, cancelled: Event) -> Iterator[None]:
        """Wait for the lock and hold it; raises RecognitionCancelled if `cancelled` is set."""
        self._acquire((priority, next(self._numbers)))
        try:
            if cancelled.is_set():
                raise RecognitionCancelled
            yield
        finally:
            self._release()

    @contextmanager
    def files_paused(self) -> Iterator[None]:
        """Give the lock to no file meanwhile; a file that holds it goes on."""
        self._add_pause(1)
        try:
            yield
        finally:
            self._add_pause(-1)

    def wait_for_finals(self) -> None:
        """Wait until no final holds the lock, so that the caller takes no CPU time from it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._final)

    def _acquire(self, ticket: tuple[int, int]) -> None:
        with self._changed:
            heapq.heappush(self._waiting, ticket)
            self._changed.wait_for(lambda: self._is_next(ticket))
            heapq.heappop(self._waiting)
            self._taken, self._final = True, ticket[0] == FINAL

    def _is_next(self, ticket: tuple[int, int]) -> bool:
        if self._taken or self._waiting[0] != ticket:
            return False
        return ticket[0] == FINAL or not self._pauses

    def _release(self) -> None:
        with self._changed:
            self._taken = self._final = False
            self._changed.notify_all()

    def _add_pause(self, change: int) -> None:
        with self._changed:
            self._pauses += change
            self._changed.notify_all()


class DirectAccess:
    """The access of a caller that already has the model, or a model of its own."""

    def __init__(self, cancelled: Event) -> None:
        self._cancelled = cancelled

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Compute, unless the recognition was cancelled."""
        if self._cancelled.is_set():
            raise RecognitionCancelled
        yield

    preprocessing = __call__


class FileAccess:
    """The access of a file: each step waits for the lock; `spent_s` counts without the waits."""

    def __init__(
        self, lock: PriorityLock, preparing: threading.Lock, cancelled: Event, clock: Clock
    ) -> None:
        """Take the model's lock, and the lock that all files share for their preprocessing."""
        self._lock, self._preparing = lock, preparing
        self._cancelled, self._clock = cancelled, clock
        self.spent_s = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for the lock and hold it."""
        with self._lock.hold(FILE, self._cancelled), self._timed():
            yield

    @contextmanager
    def preprocessing(self) -> Iterator[None]:
        """Wait until no other file is preprocessed, and no final computes."""
        with self._preparing:
            self._lock.wait_for_finals()
            if self._cancelled.is_set():
                raise RecognitionCancelled
            with self._timed():
                yield

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = self._clock()
        yield
        self.spent_s += self._clock() - started


@dataclass(slots=True, eq=False)
class Speaker:
    """A client whose finals alternate with those of others."""

    last_served: int = 0
    """The number of its last final; the lowest is served next."""


@dataclass(slots=True, eq=False)
class FinalRequest:
    """A place in the queue of finals."""

    speaker: Speaker = field(default_factory=Speaker)
    is_due: bool = True
    """False while speech may resume, which makes the text worthless; it may change in the queue."""


class FinalQueue:
    """Runs finals in one thread: due ones first, and fairly among speakers."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "final")
        self._waiting: list[tuple[FinalRequest, asyncio.Future[None]]] = []
        self._numbers = itertools.count(1)
        self._taken = False

    async def run(self, request: FinalRequest, function: Callable[[], T]) -> T:
        """Return `function()`, run in its turn; raises RuntimeError after `close`."""
        await self._acquire(request)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, function)
        except RuntimeError:
            self._release()
            raise
        # A cancelled caller leaves the thread in its step, which occupies it until that ends.
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def close(self) -> None:
        """Start no further final; blocks until the running one has ended."""
        self._pool.shutdown(cancel_futures=True)

    async def _acquire(self, request: FinalRequest) -> None:
        if not self._taken:
            self._take(request)
            return
        entry = request, asyncio.get_running_loop().create_future()
        self._waiting.append(entry)
        try:
            await entry[1]
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:  # cancelled just after its turn came
                self._release()
            raise

    def _take(self, request: FinalRequest) -> None:
        self._taken, request.speaker.last_served = True, next(self._numbers)

    def _release(self) -> None:
        """Serve the next request; among equals, the first that came."""
        self._taken = False
        if self._waiting:
            entry = min(self._waiting, key=_urgency)
            self._waiting.remove(entry)
            self._take(entry[0])
            entry[1].set_result(None)

    def _ended(self, running: asyncio.Future[T]) -> None:
        if not running.cancelled():
            running.exception()
        self._release()


def _urgency(entry: tuple[FinalRequest, asyncio.Future[None]]) -> tuple[bool, int]:
    request = entry[0]
    return not request.is_due, request.speaker.last_served

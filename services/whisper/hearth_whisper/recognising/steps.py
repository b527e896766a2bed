"""Who may do the next step in the model: one at a time, finals before files, else as they came."""

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hearth_whisper.recognising import Stop, Stopped

FINAL, FILE = 0, 1
"""How urgent a turn is; the smaller, the sooner."""

Clock = Callable[[], float]
"""Returns seconds that only grow; time.perf_counter, or a test's own."""


class Steps:
    """One place in the model, and who waits for it."""

    def __init__(self) -> None:
        """Begin with a free place."""
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int]] = []
        self._numbers = itertools.count()
        self._taken = self._final = False
        self._held_back = 0

    @property
    def waiting(self) -> int:
        """How many wait for the place."""
        with self._changed:
            return len(self._waiting)

    @contextmanager
    def turn(self, urgency: int, stop: Stop) -> Iterator[None]:
        """Wait for the place and hold it; raises Stopped when `stop` was set by then."""
        self._enter((urgency, next(self._numbers)))
        try:
            if stop.is_set():
                raise Stopped
            yield
        finally:
            self._leave()

    @contextmanager
    def without_files(self) -> Iterator[None]:
        """Let no file begin a step meanwhile; what it began goes on, and finals come as ever."""
        self._hold_back(1)
        try:
            yield
        finally:
            self._hold_back(-1)

    def after_finals(self) -> None:
        """Wait until no final is in the model: what follows takes processors from it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._final)

    def _enter(self, ticket: tuple[int, int]) -> None:
        with self._changed:
            heapq.heappush(self._waiting, ticket)
            self._changed.wait_for(lambda: self._may(ticket))
            heapq.heappop(self._waiting)
            self._taken, self._final = True, ticket[0] == FINAL

    def _may(self, ticket: tuple[int, int]) -> bool:
        if self._taken or self._waiting[0] != ticket:
            return False
        return ticket[0] == FINAL or not self._held_back

    def _leave(self) -> None:
        with self._changed:
            self._taken = self._final = False
            self._changed.notify_all()

    def _hold_back(self, more: int) -> None:
        with self._changed:
            self._held_back += more
            self._changed.notify_all()


class Alone:
    """The steps of one who has the model, or another one, for himself."""

    def __init__(self, stop: Stop) -> None:
        """Take what says that nobody waits any more."""
        self._stop = stop

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Go on, unless nobody waits."""
        if self._stop.is_set():
            raise Stopped
        yield

    beside = __call__


class InTurn:
    """The steps of a file: each waits for its turn, and the seconds without the waits count."""

    def __init__(self, place: Steps, room: threading.Lock, stop: Stop, clock: Clock) -> None:
        """Take the place in the model, and the room for one who prepares."""
        self._place, self._room, self._stop, self._clock = place, room, stop, clock
        self.spent_s = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for a turn and hold it."""
        with self._place.turn(FILE, self._stop):
            began = self._clock()
            yield
            self.spent_s += self._clock() - began

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Wait until no other file prepares, and no final is in the model."""
        with self._room:
            self._place.after_finals()
            if self._stop.is_set():
                raise Stopped
            began = self._clock()
            yield
            self.spent_s += self._clock() - began

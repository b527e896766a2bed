"""One thread for all inferences: who waits for a first sound first, then who runs dry first."""

import asyncio
import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from hearth_kokoro.engines import Engine, Samples, Stop, Stopped, Styles
from hearth_kokoro.errors import SpeechError

Clock = Callable[[], float]
"""Returns seconds that only grow; time.perf_counter, or a test's own."""

# A piece that was stopped for others so often is made to its end, whoever comes.
_MAX_RESTARTS = 3
# Stopping takes up to 35 ms, so it is worth while only if the rest takes longer.
_WORTH_S = 0.15
_MARGIN_S = 0.25


@dataclass(frozen=True, slots=True)
class Order:
    """One inference that somebody waits for, and how urgent it is."""

    phonemes: str
    styles: Styles
    speed: float
    is_first: bool
    due: float
    """When the listener runs dry, by the clock."""
    cost_s: float
    """What it is expected to take."""


@dataclass(frozen=True, slots=True)
class Made:
    """The samples of an order as the model made them, and the seconds that took."""

    samples: Samples
    seconds: float


@dataclass(slots=True, eq=False)
class _Job:
    order: Order
    future: asyncio.Future[Made]
    stop: Stop = field(default_factory=Stop)
    restarts: int = 0
    begun: float = 0.0
    is_dropped: bool = False


class Work:
    """Runs orders one after another in a thread of its own, off the event loop."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """Take the engine, which nobody else may use meanwhile."""
        self._engine, self._clock = engine, clock
        self._lock = threading.Condition()
        self._heap: list[tuple[int, float, int, _Job]] = []
        self._running: _Job | None = None
        self._closed = False
        self._numbers = count()
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self.preempted = 0

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self) -> None:
        """Stop what runs, drop what waits, and end the thread; blocks for some milliseconds."""
        with self._lock:
            self._closed = True
            if self._running:
                self._running.stop.set()
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    @property
    def waiting(self) -> int:
        """How many orders wait for their turn."""
        with self._lock:
            return sum(not job.is_dropped for *_, job in self._heap)

    async def do(self, order: Order) -> Made:
        """Return the samples of an order; cancelling this stops it within 100 ms."""
        job = _Job(order, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._closed:
                raise SpeechError("the server is stopping", status=503, retry_after_s=5)
            self._push(job)
            if order.is_first:
                self._make_room()
            self._lock.notify()
        try:
            return await job.future
        finally:
            if not job.future.done() or job.future.cancelled():
                self._drop(job)

    def _push(self, job: _Job) -> None:
        key = (0 if job.order.is_first else 1, job.order.due, next(self._numbers))
        heapq.heappush(self._heap, (*key, job))

    def _drop(self, job: _Job) -> None:
        with self._lock:
            job.is_dropped = True
            job.stop.set()
            # What was dropped holds its text and voice until it is popped: not for long.
            if sum(j.is_dropped for *_, j in self._heap) > len(self._heap) // 2:
                self._heap = [entry for entry in self._heap if not entry[3].is_dropped]
                heapq.heapify(self._heap)

    def _make_room(self) -> None:
        """Stop the running later piece where its listener has time for it to be made again."""
        running, now = self._running, self._clock()
        if not running or running.order.is_first or running.restarts >= _MAX_RESTARTS:
            return
        firsts = sum(j.order.cost_s for k, *_, j in self._heap if k == 0 and not j.is_dropped)
        left_s = running.begun + running.order.cost_s - now
        slack_s = running.order.due - now - firsts - running.order.cost_s
        if left_s > _WORTH_S and slack_s > _MARGIN_S:
            running.stop.set()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                samples = self._engine.infer(
                    job.order.phonemes, job.order.styles, job.order.speed, job.stop
                )
            except Stopped:
                self._stopped(job)
            except Exception as error:  # whatever an engine raises is one request's failure
                self._settle(job, error)
            else:
                self._settle(job, Made(samples, self._clock() - job.begun))
            del job
        with self._lock:
            left, self._heap = self._heap, []
        for *_, waiting in left:
            self._settle(waiting, _stopping())

    def _next(self) -> _Job | None:
        """Wait for the most urgent job; None when the work ends."""
        with self._lock:
            self._running = None
            while not self._closed:
                while self._heap:
                    job = heapq.heappop(self._heap)[-1]
                    if not job.is_dropped:
                        self._running, job.begun = job, self._clock()
                        return job
                self._lock.wait()
            return None

    def _stopped(self, job: _Job) -> None:
        """Put a piece back that made room for others; end one that nobody wants."""
        with self._lock:
            again = not job.is_dropped and not self._closed
            if again:
                job.stop = Stop()
                job.restarts += 1
                self.preempted += 1
                self._push(job)
        if not again:
            self._settle(job, _stopping())

    def _settle(self, job: _Job, result: Made | Exception) -> None:
        def tell() -> None:
            if job.future.done():
                return
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

        try:
            job.future.get_loop().call_soon_threadsafe(tell)
        except RuntimeError:
            return  # its event loop has ended, and everybody who waited there


def _stopping() -> SpeechError:
    return SpeechError("the server is stopping", status=503, retry_after_s=5)

"""One thread for all inferences: who waits for a first sound first, then who runs dry first."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from hearth_kokoro.engines import Engine, Samples, Stop, Stopped, Styles
from hearth_serving.errors import ServiceError

Clock = Callable[[], float]
"""Returns seconds that only grow; time.perf_counter, or a test's own."""

# A piece that was stopped for others so often is made to its end, whoever comes.
_MAX_RESTARTS = 3
# Stopping takes up to 35 ms, so it is worth while only if the rest takes longer.
_WORTH_S = 0.15
_MARGIN_S = 0.25
# After so many first pieces in a row, a listener who runs dry is served: four may begin at once.
_MAX_FIRSTS = 4


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
class InferenceResult:
    """The samples of an order as the model made them, and the seconds that took."""

    samples: Samples
    seconds: float


@dataclass(slots=True, eq=False)
class _Job:
    order: Order
    future: asyncio.Future[InferenceResult]
    stop: Stop = field(default_factory=Stop)
    restarts: int = 0
    begun: float = 0.0
    is_dropped: bool = False

    def is_late(self, now: float) -> bool:
        """Whether its listener runs dry even if it begins now."""
        return self.order.due - self.order.cost_s <= now


class Work:
    """Runs orders one after another in a thread of its own, off the event loop."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """Take the engine, which nobody else may use meanwhile."""
        self._engine, self._clock = engine, clock
        self._lock = threading.Condition()
        # In the order in which they came; there are never more than there are speeches.
        self._jobs: list[_Job] = []
        self._running: _Job | None = None
        self._firsts_in_a_row = 0
        self._closed = False
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
            return len(self._jobs)

    async def do(self, order: Order) -> InferenceResult:
        """Return the samples of an order; cancelling this stops it within 100 ms."""
        job = _Job(order, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._closed:
                raise ServiceError("the server is stopping", status=503, retry_after_s=5)
            self._jobs.append(job)
            if order.is_first:
                self._make_room()
            self._lock.notify()
        try:
            return await job.future
        finally:
            if not job.future.done() or job.future.cancelled():
                self._drop(job)

    def _drop(self, job: _Job) -> None:
        with self._lock:
            job.is_dropped = True
            job.stop.set()
            if job in self._jobs:
                self._jobs.remove(job)

    def _make_room(self) -> None:
        """Stop the running later piece where its listener has time for it to be made again."""
        running, now = self._running, self._clock()
        if not running or running.order.is_first or running.restarts >= _MAX_RESTARTS:
            return
        firsts = sum(job.order.cost_s for job in self._jobs if job.order.is_first)
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
                self._settle(job, InferenceResult(samples, self._clock() - job.begun))
            del job
        with self._lock:
            left, self._jobs = self._jobs, []
        for waiting in left:
            self._settle(waiting, _stopping())

    def _next(self) -> _Job | None:
        """Wait for the most urgent job; None when the work ends."""
        with self._lock:
            self._running = None
            while not self._closed and not self._jobs:
                self._lock.wait()
            if self._closed:
                return None
            job = self._most_urgent()
            self._jobs.remove(job)
            self._firsts_in_a_row = self._firsts_in_a_row + 1 if job.order.is_first else 0
            self._running, job.begun = job, self._clock()
            return job

    def _most_urgent(self) -> _Job:
        firsts = [job for job in self._jobs if job.order.is_first]
        laters = [job for job in self._jobs if not job.order.is_first]
        pool = firsts or laters
        if firsts and self._firsts_in_a_row >= _MAX_FIRSTS:
            # Others who begin, and begin, and begin silence nobody for ever.
            pool = [job for job in laters if job.is_late(self._clock())] or firsts
        return min(pool, key=lambda job: job.order.due)

    def _stopped(self, job: _Job) -> None:
        """Put a piece back that made room for others; end one that nobody wants."""
        with self._lock:
            again = not job.is_dropped and not self._closed
            if again:
                job.stop = Stop()
                job.restarts += 1
                self.preempted += 1
                self._jobs.append(job)
        if not again:
            self._settle(job, _stopping())

    def _settle(self, job: _Job, result: InferenceResult | Exception) -> None:
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


def _stopping() -> ServiceError:
    return ServiceError("the server is stopping", status=503, retry_after_s=5)

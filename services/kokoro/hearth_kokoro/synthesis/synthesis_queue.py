"""One thread for all inferences: first segments go first, then the earliest deadline."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from hearth_kokoro.engines import Engine, InferenceStopped, Samples, StopSignal, Styles
from hearth_serving.errors import ServiceError

Clock = Callable[[], float]
"""Returns monotonic seconds: time.perf_counter, or the clock of a test."""

# After so many restarts, an inference is not preempted again.
_MAX_RESTARTS = 3
# Preemption takes up to 35 ms, so it is useful only if the rest takes longer.
_MIN_GAIN_S = 0.15
_MARGIN_S = 0.25
# A speech sends its next request within a few milliseconds of its last result.
_NEXT_S = 0.05
# The background waits until no live request has come for so long.
_QUIET_S = 0.25
# An inference takes up to a third longer than expected.
_CAUTION = 4 / 3
# After so many first segments in a row, a late segment goes first.
_MAX_FIRSTS = 4


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """One inference, and how urgent it is."""

    phonemes: str
    styles: Styles
    speed: float
    is_first: bool
    deadline: float
    """When the client's playback runs dry, by the clock."""
    cost_s: float
    """The expected duration."""
    promised_to: object | None = None
    """The speech that was held back so that it does not stall from then on."""
    is_background: bool = False
    """Whether nobody waits for it: it runs while there is no other request."""


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The samples of a request as the model returned them, and the seconds it took."""

    samples: Samples
    seconds: float


@dataclass(slots=True, eq=False)
class _Job:
    request: SynthesisRequest
    future: asyncio.Future[InferenceResult]
    stop: StopSignal = field(default_factory=StopSignal)
    restarts: int = 0
    started_at: float = 0.0
    is_dropped: bool = False

    def is_late(self, now: float) -> bool:
        """Return whether it misses its deadline even if it starts now."""
        return self.request.deadline - self.request.cost_s <= now


class SynthesisQueue:
    """Runs requests one after another in its own thread; nothing else may use the engine."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._lock = threading.Condition()
        # In order of arrival; there are never more jobs than speeches.
        self._jobs: list[_Job] = []
        self._running: _Job | None = None
        self._firsts_in_a_row = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)
        self.preempted = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the running job, drop the others, and end the thread; blocks for milliseconds."""
        with self._lock:
            self._closed = True
            if self._running:
                self._running.stop.set()
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    @property
    def waiting(self) -> int:
        """The number of waiting requests, without those of the background."""
        with self._lock:
            return len(self._live_jobs())

    async def run(self, request: SynthesisRequest) -> InferenceResult:
        """Return the samples of a request; cancelling this stops the inference within 100 ms."""
        job = _Job(request, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._closed:
                raise _stopping_error()
            self._jobs.append(job)
            running = self._running
            if running and running.request.is_background and not request.is_background:
                running.stop.set()
            elif request.is_first:
                self._preempt_if_useful()
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

    def _preempt_if_useful(self) -> None:
        """Stop the running inference for a first segment if it can still meet its deadline."""
        running, now = self._running, self._clock()
        if not running or running.request.is_first or running.restarts >= _MAX_RESTARTS:
            return
        firsts = sum(job.request.cost_s for job in self._jobs if job.request.is_first)
        left_s = running.started_at + running.request.cost_s - now
        slack_s = running.request.deadline - now - firsts - running.request.cost_s
        if left_s > _MIN_GAIN_S and slack_s > _MARGIN_S:
            running.stop.set()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                samples = self._engine.infer(
                    job.request.phonemes, job.request.styles, job.request.speed, job.stop
                )
            except InferenceStopped:
                self._requeue_or_end(job)
            except Exception as error:  # any error of an engine fails one request only
                self._finish(job, error)
            else:
                self._finish(job, InferenceResult(samples, self._clock() - job.started_at))
            del job
        with self._lock:
            left, self._jobs = self._jobs, []
        for waiting in left:
            self._finish(waiting, _stopping_error())

    def _next(self) -> _Job | None:
        """Wait for the most urgent job; return None when the queue closes."""
        with self._lock:
            last, self._running = self._running, None
            if last and (speech := last.request.promised_to):
                # Its next request comes after a few milliseconds, and may be the most urgent one.
                self._lock.wait_for(lambda: self._closed or self._has_job_of(speech), _NEXT_S)
            if last and not last.request.is_background:
                # A speech that goes on must not interrupt the background after each segment.
                self._lock.wait_for(lambda: self._closed or bool(self._live_jobs()), _QUIET_S)
            while not self._closed and not self._jobs:
                self._lock.wait()
            if self._closed:
                return None
            job = self._most_urgent()
            self._jobs.remove(job)
            self._firsts_in_a_row = self._firsts_in_a_row + 1 if job.request.is_first else 0
            self._running, job.started_at = job, self._clock()
            return job

    def _live_jobs(self) -> list[_Job]:
        return [job for job in self._jobs if not job.request.is_background]

    def _has_job_of(self, speech: object) -> bool:
        return any(job.request.promised_to is speech for job in self._jobs)

    def _most_urgent(self) -> _Job:
        jobs = self._live_jobs() or self._jobs
        firsts = [job for job in jobs if job.request.is_first]
        laters = [job for job in jobs if not job.request.is_first]
        pool = firsts or laters
        if firsts and self._firsts_in_a_row >= _MAX_FIRSTS:
            # A flood of first segments must not silence a speech that is being played.
            pool = [job for job in laters if job.is_late(self._clock())] or firsts
        chosen = min(pool, key=_deadline)
        # A speech that must not stall goes first if another inference would make it late.
        promised = [job for job in laters if job.request.promised_to]
        if promised and not chosen.request.promised_to:
            urgent = min(promised, key=_deadline)
            then = self._clock() + _CAUTION * (chosen.request.cost_s + urgent.request.cost_s)
            if urgent.request.deadline <= then:
                return urgent
        return chosen

    def _requeue_or_end(self, job: _Job) -> None:
        """Put a preempted job back into the queue; end one that was dropped."""
        with self._lock:
            requeue = not job.is_dropped and not self._closed
            if requeue:
                job.stop = StopSignal()
                job.restarts += not job.request.is_background
                self.preempted += 1
                self._jobs.append(job)
        if not requeue:
            self._finish(job, _stopping_error())

    def _finish(self, job: _Job, result: InferenceResult | Exception) -> None:
        def set_result() -> None:
            if job.future.done():
                return
            if isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)

        try:
            job.future.get_loop().call_soon_threadsafe(set_result)
        except RuntimeError:
            return  # the event loop has ended


def _deadline(job: _Job) -> float:
    return job.request.deadline


def _stopping_error() -> ServiceError:
    return ServiceError("the server is stopping", status=503, retry_after_s=5)

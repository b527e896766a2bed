"""Partial results: one at a time, for a share of the CPU time, and never before finals."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from hearth_serving.errors import ServiceError, log_unexpected
from hearth_serving.metrics import recent, summary
from hearth_whisper.recognition import RecognitionCancelled
from hearth_whisper.recognition.queues import Clock, PriorityLock
from hearth_whisper.recognition.transcription import Transcript

log = logging.getLogger(__name__)

Transcribe = Callable[[Event], Transcript]
"""Transcribes until the event is set; raises RecognitionCancelled then."""


class PartialRunner:
    """Runs a partial result if there is capacity now; a request never waits for it."""

    def __init__(self, lock: PriorityLock, share: float, clock: Clock) -> None:
        """Take the model's lock, which files leave meanwhile, and the share of CPU time."""
        self._lock, self._share, self._clock = lock, share, clock
        self._pool = ThreadPoolExecutor(1, "partial")
        self._running = self._closed = self._failing = False
        self._cancelled = Event()
        self._abandoned: asyncio.Event | None = None
        self._not_before = 0.0
        self._seconds = recent()
        self._made = self._refused = self._given_up = 0

    @property
    def is_running(self) -> bool:
        """Whether its thread is busy, even with a cancelled result."""
        return self._running

    async def run(self, transcribe: Transcribe) -> Transcript | None:
        """Return the transcript; None without capacity, or when a final comes meanwhile."""
        if self._running or self._closed or self._clock() < self._not_before:
            self._refused += 1
            return None
        self._running, self._cancelled, self._abandoned = True, Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._pool, self._run, transcribe, self._cancelled)
        # A cancelled thread may need a while to end; until then there is no capacity.
        running.add_done_callback(self._ended)
        abandoned = asyncio.ensure_future(self._abandoned.wait())
        try:
            await asyncio.wait((running, abandoned), return_when=asyncio.FIRST_COMPLETED)
        finally:
            abandoned.cancel()
            if not running.done():
                self._cancelled.set()
        if not running.done() or (transcript := running.result()) is None:
            self._given_up += 1
            return None
        self._made += 1
        return transcript

    def cancel(self) -> None:
        """Cancel a running result for a final; its own threads yield the CPU at once."""
        self._cancelled.set()
        if self._abandoned:
            self._abandoned.set()

    def close(self) -> None:
        """Cancel a running result, and start no other."""
        self._closed = True
        self.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def describe(self) -> dict[str, Any]:
        """Return how many were made, refused, and given up for a final."""
        return {
            "made": self._made,
            "refused": self._refused,
            "given_up": self._given_up,
            "share": self._share,
            "seconds": summary(self._seconds),
        }

    def _run(self, transcribe: Transcribe, cancelled: Event) -> Transcript | None:
        started = self._clock()
        try:
            with self._lock.files_paused():
                transcript = transcribe(cancelled)
            self._seconds.append(transcript.seconds)
            self._failing = False
        except RecognitionCancelled:
            return None
        except Exception as error:  # the final reports the same failure to the client
            self._log_failure(error)
            return None
        finally:
            now = self._clock()
            self._not_before = now + (now - started) * (1 / self._share - 1)
        return transcript

    def _log_failure(self, error: Exception) -> None:
        """Log a failure once until one succeeds; the next try follows within a moment."""
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

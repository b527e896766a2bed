"""The scheduler of all recognitions over one model: finals first, then files, then partials."""

import asyncio
import functools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

from hearth_serving.errors import ServiceError
from hearth_serving.metrics import recent, summary
from hearth_whisper.recognition import Audio, Options, RecognitionCancelled, Samples
from hearth_whisper.recognition.model import (
    Load,
    LoadedModel,
    ModelManager,
    can_draft,
    capabilities_of,
    check_options,
    partial_options,
    stopping_error,
)
from hearth_whisper.recognition.partials import PartialRunner
from hearth_whisper.recognition.queues import (
    FINAL,
    Clock,
    FinalQueue,
    FinalRequest,
    PriorityLock,
)
from hearth_whisper.recognition.resources import limit_malloc_arenas
from hearth_whisper.recognition.transcription import (
    FileJob,
    FileTranscription,
    Transcript,
    run_file,
    transcribe,
)

_RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """How many requests at once, and how much of the machine."""

    files: int = 8
    """Files that alternate in the model; each holds a chunk of audio."""
    waiting_files: int = 56
    waiting_finals: int = 64
    share: float = 0.5
    """The largest share of the CPU time for partial results."""
    unload_s: float | None = None


class Scheduler:
    """Runs all requests for text, from HTTP, WebSockets and satellites."""

    def __init__(
        self,
        load: Load,
        limits: SchedulerLimits | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        """Take the function that loads the model."""
        limit_malloc_arenas()
        self._limits, self._clock = limits or SchedulerLimits(), clock
        self._model = ModelManager(load, self._limits.unload_s)
        self._lock, self._preparing = PriorityLock(), threading.Lock()
        self._partials = PartialRunner(self._lock, self._limits.share, clock)
        self._finals = FinalQueue()
        self._files = ThreadPoolExecutor(self._limits.files, "file")
        self._slots = asyncio.Semaphore(self._limits.files)
        self._waiting_files = self._waiting_finals = self._active_files = 0
        self._cancel_events: set[Event] = set()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._rtf, self._final_s = recent(), recent()

    async def start(self) -> None:
        """Start to load in the background; requests wait, /health responds meanwhile."""
        self.preload()

    def preload(self) -> None:
        """Load the model if it is unloaded, because a request will need it soon."""
        if not self._closed and not self._model.is_loading and self._model.loaded is None:
            self._keep(asyncio.ensure_future(self._load()))

    async def close(self) -> None:
        """Cancel running requests, refuse waiting ones (503), free the model."""
        self._closed = True
        for cancelled in tuple(self._cancel_events):
            cancelled.set()
        self._partials.close()
        await self._model.close()
        await asyncio.to_thread(self._files.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._finals.close)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def ready(self) -> bool:
        """Whether the model was loaded once; a later load that fails is retried on demand."""
        return self._model.loads > 0 and not self._closed

    @property
    def failure(self) -> str | None:
        """Why the last load failed, in one line; None if it succeeded."""
        return self._model.failure

    @property
    def steps_waiting(self) -> int:
        """How many steps wait for the model."""
        return self._lock.waiting

    @property
    def partials_running(self) -> bool:
        """Whether a partial result occupies its thread, even a cancelled one."""
        return self._partials.is_running

    def check(self, options: Options) -> None:
        """Raise ServiceError for unsupported options; before the first load, accept all."""
        if self._model.capabilities:
            check_options(self._model.capabilities, options)

    async def transcribe_file(self, audio: Audio, options: Options) -> FileTranscription:
        """Start a file; a thread of the scheduler pulls the blocks of audio, so they may block.

        Raises ServiceError: 429 with Retry-After when too many wait, 400 for a language that the
        model does not support, 503 when it cannot load. Errors of iterating `audio` come through.
        """
        self._refuse(self._waiting_files >= self._limits.waiting_files, "files")
        self._waiting_files += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting_files -= 1
        cancelled = Event()
        output = FileTranscription(cancelled)
        running = asyncio.ensure_future(self._run_file(FileJob(audio, options, output, cancelled)))
        self._keep(running)
        try:
            await output.wait_for_language()
        except BaseException:
            cancelled.set()
            raise
        return output

    async def transcribe_final(
        self,
        samples: Samples,
        options: Options,
        cancelled: Event,
        request: FinalRequest | None = None,
    ) -> Transcript:
        """Transcribe at most 30 s, before any file's next step.

        Raises RecognitionCancelled once `cancelled` is set, as the end of the task sets it. Without
        a `request` the final is due, and belongs to a speaker of its own.
        """
        self._refuse(self._waiting_finals >= self._limits.waiting_finals, "utterances")
        self._waiting_finals += 1
        self._cancel_events.add(cancelled)
        self._partials.cancel()
        try:
            async with self._model.use() as loaded:
                check_options(capabilities_of(loaded.recogniser), options)
                run = functools.partial(self._run_final, loaded, samples, options, cancelled)
                with self._closing_reported():
                    return await self._finals.run(request or FinalRequest(), run)
        except BaseException as error:
            cancelled.set()
            if isinstance(error, RecognitionCancelled) and self._closed:
                raise stopping_error() from None
            raise
        finally:
            self._cancel_events.discard(cancelled)
            self._waiting_finals -= 1

    async def transcribe_partial(self, samples: Samples, options: Options) -> Transcript | None:
        """Transcribe an utterance that goes on; None without capacity for it at present."""
        loaded = self._model.loaded
        if loaded is None:
            # Partial results come too often to retry a load that failed; the final does that.
            if not self.failure:
                self.preload()
            return None
        draft, options = loaded.draft, partial_options(options)
        if self._waiting_finals or self._closed or draft is None:
            return None
        if not can_draft(loaded.recogniser, draft, options):
            return None
        async with self._model.use():
            return await self._partials.run(
                lambda cancelled: transcribe(draft, samples, options, cancelled, self._clock)
            )

    def describe(self) -> dict[str, Any]:
        """Return the part of /status on model, draft, device, threads, RTF, queues and memory."""
        return {
            **self._model.description,
            "loaded": self._model.loaded is not None,
            "loads": self._model.loads,
            "unload_s": self._limits.unload_s,
            "rtf": summary(self._rtf),
            "final_s": summary(self._final_s),
            "files": {
                "active": self._active_files,
                "waiting": self._waiting_files,
                "slots": self._limits.files,
            },
            "finals": {"waiting": self._waiting_finals, "slots": self._limits.waiting_finals},
            "partials": self._partials.describe(),
        }

    async def _load(self) -> None:
        async with self._model.use():
            pass

    async def _run_file(self, job: FileJob) -> None:
        """Hold a slot, and the model, while a file is transcribed."""
        self._active_files += 1
        self._cancel_events.add(job.cancelled)
        try:
            async with self._model.use() as loaded:
                check_options(capabilities_of(loaded.recogniser), job.options)
                shared = loaded.recogniser, self._lock, self._preparing, self._clock
                run = functools.partial(run_file, job, *shared)
                with self._closing_reported():
                    spent_s = await asyncio.get_running_loop().run_in_executor(self._files, run)
            if job.output.audio_s and not job.cancelled.is_set():
                self._rtf.append(spent_s / job.output.audio_s)
        except (ServiceError, asyncio.CancelledError) as error:
            job.output.put(error if isinstance(error, ServiceError) else stopping_error())
            job.close()
        finally:
            self._cancel_events.discard(job.cancelled)
            self._active_files -= 1
            self._slots.release()

    def _run_final(
        self, loaded: LoadedModel, samples: Samples, options: Options, cancelled: Event
    ) -> Transcript:
        # One lock for the whole final: between two steps a file's step would delay the second.
        with self._lock.hold(FINAL, cancelled):
            transcript = transcribe(loaded.recogniser, samples, options, cancelled, self._clock)
        self._final_s.append(transcript.seconds)
        if transcript.audio_s:
            self._rtf.append(transcript.seconds / transcript.audio_s)
        return transcript

    @contextmanager
    def _closing_reported(self) -> Iterator[None]:
        """Turn the error of a closed thread pool into that of a server that is stopping."""
        try:
            yield
        except RuntimeError as error:
            if not self._closed:
                raise
            raise stopping_error() from error

    def _refuse(self, full: bool, kind: str) -> None:
        if self._closed:
            raise stopping_error()
        if full:
            message = f"too many {kind} are waiting; try again in {_RETRY_AFTER_S} s"
            raise ServiceError(message, status=429, retry_after_s=_RETRY_AFTER_S)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

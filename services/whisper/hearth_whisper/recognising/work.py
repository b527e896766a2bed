"""All recognitions of a process over one model in memory: finals first, then files, in turns."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from hearth_serving.errors import ServiceError
from hearth_serving.figures import recent, summary
from hearth_whisper.recognising import (
    Options,
    Samples,
    Sound,
    Stop,
    Stopped,
)
from hearth_whisper.recognising.files import FileText, Job, run
from hearth_whisper.recognising.memory import few_heaps
from hearth_whisper.recognising.model import Loaded, Make, Model
from hearth_whisper.recognising.partials import Partials
from hearth_whisper.recognising.rules import check, may_draft, quick, stopping
from hearth_whisper.recognising.turns import FINAL, Clock, Turns
from hearth_whisper.recognising.whole import Recognised, recognised

T = TypeVar("T")
_ASK_AGAIN_S = 5


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much at once, and how much of the machine."""

    files: int = 8
    """Files under way at once, whose steps take turns; each holds a piece of sound."""
    waiting_files: int = 56
    waiting_finals: int = 64
    share: float = 0.5
    """Of the processors' time, the most that partials take."""
    unload_s: float | None = None


class Work:
    """Everything that the model is asked for, from HTTP, sockets and satellites."""

    def __init__(
        self, make: Make, bounds: Bounds | None = None, clock: Clock = time.perf_counter
    ) -> None:
        """Take what loads the model."""
        few_heaps()
        self._bounds, self._clock = bounds or Bounds(), clock
        self._model = Model(make, self._bounds.unload_s)
        self._turns, self._room = Turns(), threading.Lock()
        self._partials = Partials(self._turns, self._bounds.share, clock)
        self._finals = ThreadPoolExecutor(1, "final")
        self._files = ThreadPoolExecutor(self._bounds.files, "file")
        self._places = asyncio.Semaphore(self._bounds.files)
        self._waiting_files = self._waiting_finals = self._active_files = 0
        self._stops: set[Stop] = set()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._rtf, self._final_s = recent(), recent()

    async def start(self) -> None:
        """Begin to load in the background; requests wait, /health answers meanwhile."""
        self.wake()

    def wake(self) -> None:
        """Load the model, if it is not, because somebody will need it soon."""
        if not self._closed and not self._model.is_loading and self._model.loaded is None:
            self._keep(asyncio.ensure_future(self._load()))

    async def close(self) -> None:
        """Stop what runs, refuse what waits (503), free the model."""
        self._closed = True
        for stop in tuple(self._stops):
            stop.set()
        self._partials.close()
        await self._model.close()
        for pool in (self._files, self._finals):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def ready(self) -> bool:
        """Whether it can serve: loaded, or unloaded for idleness and loadable on demand."""
        return self._model.loads > 0 and self._model.failure is None and not self._closed

    @property
    def failure(self) -> str | None:
        """Why it cannot serve, in one line; None while it loads and when it is ready."""
        return self._model.failure

    @property
    def turns_waiting(self) -> int:
        """How many steps wait for the model."""
        return self._turns.waiting

    @property
    def partials_running(self) -> bool:
        """Whether a partial is in its thread, given up or not."""
        return self._partials.is_running

    async def file(self, sound: Sound, options: Options) -> FileText:
        """Begin a file; blocks of sound are pulled in a thread of ours, so they may block.

        Raises ServiceError: 429 with Retry-After when too many wait, 400 for a language that the
        model does not know, 503 when it cannot load; and whatever the iteration of `sound` raises.
        """
        self._refuse(self._waiting_files >= self._bounds.waiting_files, "files")
        self._waiting_files += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting_files -= 1
        stop = Stop()
        text = FileText(stop)
        running = asyncio.ensure_future(self._run_file(Job(sound, options, text, stop)))
        self._keep(running)
        try:
            await text.begun()
        except BaseException:
            stop.set()
            raise
        return text

    async def final(self, samples: Samples, options: Options, stop: Stop) -> Recognised:
        """Recognise at most 30 s, before any file's next step; raises Stopped after `stop.set()`.

        Cancelling the task stops it as well. Finals are served one after another as they came.
        """
        self._refuse(self._waiting_finals >= self._bounds.waiting_finals, "utterances")
        self._waiting_finals += 1
        self._stops.add(stop)
        self._partials.give_way()
        try:
            async with self._model.use() as loaded:
                check(loaded.recogniser, options)
                return await self._in(
                    self._finals, lambda: self._final(loaded, samples, options, stop)
                )
        except BaseException as error:
            stop.set()
            if isinstance(error, Stopped) and self._closed:
                raise stopping() from None
            raise
        finally:
            self._stops.discard(stop)
            self._waiting_finals -= 1

    async def partial(self, samples: Samples, options: Options) -> Recognised | None:
        """Recognise what was said until now; None when there is no capacity for it at present."""
        loaded = self._model.loaded
        if loaded is None:
            self.wake()
            return None
        if self._waiting_finals or self._closed or not loaded.draft:
            return None
        draft, options = loaded.draft, quick(options)
        if not may_draft(loaded, options):
            return None
        async with self._model.use():
            return await self._partials.make(
                lambda stop: recognised(draft, samples, options, stop, self._clock)
            )

    def describe(self) -> dict[str, Any]:
        """Return what /status says of model, draft, device, threads, RTF, turns and memory."""
        return {
            **self._model.about,
            "loaded": self._model.loaded is not None,
            "loads": self._model.loads,
            "unload_s": self._bounds.unload_s,
            "rtf": summary(self._rtf),
            "final_s": summary(self._final_s),
            "files": {
                "active": self._active_files,
                "waiting": self._waiting_files,
                "slots": self._bounds.files,
            },
            "finals": {"waiting": self._waiting_finals, "slots": self._bounds.waiting_finals},
            "partials": self._partials.describe(),
        }

    async def _load(self) -> None:
        async with self._model.use():
            pass

    async def _run_file(self, job: Job) -> None:
        """Hold a place, and the model, while a file is under way."""
        self._active_files += 1
        self._stops.add(job.stop)
        try:
            async with self._model.use() as loaded:
                check(loaded.recogniser, job.options)
                spent_s = await self._in(
                    self._files,
                    lambda: run(job, loaded.recogniser, self._turns, self._room, self._clock),
                )
            if job.text.audio_s and not job.stop.is_set():
                self._rtf.append(spent_s / job.text.audio_s)
        except (ServiceError, asyncio.CancelledError) as error:
            job.text.tell(error if isinstance(error, ServiceError) else stopping())
            job.close()
        finally:
            self._stops.discard(job.stop)
            self._active_files -= 1
            self._places.release()

    def _final(self, loaded: Loaded, samples: Samples, options: Options, stop: Stop) -> Recognised:
        # The whole of it is one turn: a file's step in between would come before its second half.
        with self._turns.turn(FINAL, stop):
            done = recognised(loaded.recogniser, samples, options, stop, self._clock)
        self._final_s.append(done.seconds)
        if done.audio_s:
            self._rtf.append(done.seconds / done.audio_s)
        return done

    async def _in(self, pool: ThreadPoolExecutor, do: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, do)
        except RuntimeError as error:
            if not self._closed:
                raise
            raise stopping() from error

    def _refuse(self, full: bool, what: str) -> None:
        if self._closed:
            raise stopping()
        if full:
            message = f"too many {what} wait already; ask again in {_ASK_AGAIN_S} s"
            raise ServiceError(message, status=429, retry_after_s=_ASK_AGAIN_S)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


__all__ = ["Bounds", "FileText", "Recognised", "Stopped", "Work"]

"""All recognitions of a process over one model in memory: finals first, then files, in turns."""

import asyncio
import functools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hearth_serving.errors import ServiceError
from hearth_serving.metrics import recent, summary
from hearth_whisper.recognising import Options, Samples, Sound, Stop, Stopped
from hearth_whisper.recognising.files import FileText, Job, run
from hearth_whisper.recognising.finals import Claim, Finals
from hearth_whisper.recognising.memory import few_heaps
from hearth_whisper.recognising.model import Loaded, Make, Model
from hearth_whisper.recognising.partials import Partials
from hearth_whisper.recognising.rules import abilities, check, may_draft, quick, stopping
from hearth_whisper.recognising.steps import FINAL, Clock, Steps
from hearth_whisper.recognising.whole import WholeText, whole_text

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
        self._steps, self._room = Steps(), threading.Lock()
        self._partials = Partials(self._steps, self._bounds.share, clock)
        self._finals = Finals()
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
        await asyncio.to_thread(self._files.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._finals.close)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def ready(self) -> bool:
        """Whether it can serve: loaded once, and again on demand, also after a try that failed."""
        return self._model.loads > 0 and not self._closed

    @property
    def failure(self) -> str | None:
        """Why the last try to load failed, in one line; None where it did not."""
        return self._model.failure

    @property
    def turns_waiting(self) -> int:
        """How many steps wait for the model."""
        return self._steps.waiting

    @property
    def partials_running(self) -> bool:
        """Whether a partial is in its thread, given up or not."""
        return self._partials.is_running

    def check(self, options: Options) -> None:
        """Raise ServiceError for what the model cannot do; before its first load, all may be."""
        if self._model.abilities:
            check(self._model.abilities, options)

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

    async def final(
        self, samples: Samples, options: Options, stop: Stop, claim: Claim | None = None
    ) -> WholeText:
        """Recognise at most 30 s, before any file's next step; raises Stopped after `stop.set()`.

        Cancelling the task stops it as well. Finals are served one after another: first whose
        `claim` is due, of those whose talker was served longest ago. Without one it is due.
        """
        self._refuse(self._waiting_finals >= self._bounds.waiting_finals, "utterances")
        self._waiting_finals += 1
        self._stops.add(stop)
        self._partials.give_way()
        try:
            async with self._model.use() as loaded:
                check(abilities(loaded.recogniser), options)
                do = functools.partial(self._final, loaded, samples, options, stop)
                with self._unless_closed():
                    return await self._finals.run(claim or Claim(), do)
        except BaseException as error:
            stop.set()
            if isinstance(error, Stopped) and self._closed:
                raise stopping() from None
            raise
        finally:
            self._stops.discard(stop)
            self._waiting_finals -= 1

    async def partial(self, samples: Samples, options: Options) -> WholeText | None:
        """Recognise what was said until now; None when there is no capacity for it at present."""
        loaded = self._model.loaded
        if loaded is None:
            if not self.failure:  # else whoever needs it next tries again; this comes too often
                self.wake()
            return None
        draft, options = loaded.draft, quick(options)
        if self._waiting_finals or self._closed or draft is None:
            return None
        if not may_draft(loaded.recogniser, draft, options):
            return None
        async with self._model.use():
            return await self._partials.make(
                lambda stop: whole_text(draft, samples, options, stop, self._clock)
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
                check(abilities(loaded.recogniser), job.options)
                about = loaded.recogniser, self._steps, self._room, self._clock
                do = functools.partial(run, job, *about)
                with self._unless_closed():
                    spent_s = await asyncio.get_running_loop().run_in_executor(self._files, do)
            if job.text.audio_s and not job.stop.is_set():
                self._rtf.append(spent_s / job.text.audio_s)
        except (ServiceError, asyncio.CancelledError) as error:
            job.text.tell(error if isinstance(error, ServiceError) else stopping())
            job.close()
        finally:
            self._stops.discard(job.stop)
            self._active_files -= 1
            self._places.release()

    def _final(self, loaded: Loaded, samples: Samples, options: Options, stop: Stop) -> WholeText:
        # The whole of it is one turn: a file's step in between would come before its second half.
        with self._steps.turn(FINAL, stop):
            done = whole_text(loaded.recogniser, samples, options, stop, self._clock)
        self._final_s.append(done.seconds)
        if done.audio_s:
            self._rtf.append(done.seconds / done.audio_s)
        return done

    @contextmanager
    def _unless_closed(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if not self._closed:
                raise
            raise stopping() from error

    def _refuse(self, full: bool, what: str) -> None:
        if self._closed:
            raise stopping()
        if full:
            message = f"too many {what} are waiting; try again in {_ASK_AGAIN_S} s"
            raise ServiceError(message, status=429, retry_after_s=_ASK_AGAIN_S)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


__all__ = ["Bounds", "FileText", "Stopped", "WholeText", "Work"]

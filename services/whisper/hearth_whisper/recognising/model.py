"""The model in memory while somebody needs it, and for a while after."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_serving.server import run_in_daemon
from hearth_whisper.recognising import Recogniser
from hearth_whisper.recognising.memory import give_back
from hearth_whisper.recognising.rules import Abilities, abilities, stopping

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What computes, and why it is this."""

    recogniser: Recogniser
    draft: Recogniser | None
    """What makes partials beside it; None makes none."""
    reason: str
    rtf: float | None = None
    """Seconds of work for a second of sound, as measured before it was chosen."""


Make = Callable[[], Loaded]
"""Loads, in a thread; raises ServiceError. What it measures is not measured again."""


class Model:
    """Loaded at the start and on demand, once for all who wait; freed when idle so long."""

    def __init__(self, make: Make, unload_s: float | None) -> None:
        """Take what loads it; `unload_s` None never frees it."""
        self._make, self._unload_s = make, unload_s
        self._loading: asyncio.Task[Loaded] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._freeing: set[asyncio.Task[None]] = set()
        self._users = 0
        self._closed = False
        self.loaded: Loaded | None = None
        self.about: dict[str, Any] = {}
        """Names and numbers of what was loaded last, for those who ask while it is not."""
        self.abilities: Abilities | None = None
        """What the one that was loaded last can do."""
        self.loads = 0
        self.failure: str | None = None
        """Why the last try failed; whoever needs it next tries again."""

    @property
    def is_loading(self) -> bool:
        """Whether somebody waits for it already."""
        return self._loading is not None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Loaded]:
        """Give the model, which stays while it is used; waits for it, or raises ServiceError."""
        self._users += 1
        if self._idle:
            self._idle.cancel()
        try:
            yield await self._get()
        finally:
            self._users -= 1
            if not self._users:
                self._wait_idle()

    async def close(self) -> None:
        """Free it for good; whoever waits for it is refused."""
        self._closed = True
        if self._idle:
            self._idle.cancel()
        if self._loading:
            self._loading.cancel()
            with suppress(asyncio.CancelledError, ServiceError):
                await self._loading
        await self._free()

    async def _get(self) -> Loaded:
        while self.loaded is None:
            if self._closed:
                raise stopping()
            if self._loading is None:
                self._loading = asyncio.create_task(self._load())
                self._loading.add_done_callback(_heard)
            # Whoever leaves meanwhile does not take it from the others.
            try:
                return await asyncio.shield(self._loading)
            except asyncio.CancelledError:
                if self._closed:
                    raise stopping() from None
                raise
        return self.loaded

    async def _load(self) -> Loaded:
        try:
            if self._freeing:  # two of them at once might not fit
                await asyncio.gather(*self._freeing)
            loaded = await run_in_daemon(self._make)
        except ServiceError as error:
            self._fail(str(error))
            raise
        except Exception as error:  # as where memory runs out
            failure = f"the model cannot be loaded: {first_line(error)}"
            self._fail(failure)
            raise EngineError(failure, status=503) from error
        finally:
            self._loading = None
        self.loaded, self.failure, self.about = loaded, None, about(loaded)
        self.abilities = abilities(loaded.recogniser)
        self.loads += 1
        log.info("loaded %s: %s", loaded.recogniser.name, loaded.reason)
        return loaded

    def _fail(self, failure: str) -> None:
        self.failure = failure
        if self.loads:  # the first one ends the server, which says why
            log.warning("loading failed, the next request retries: %s", failure)

    def _wait_idle(self) -> None:
        if self._unload_s is not None and not self._closed:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._unload_s, self._unload)

    def _unload(self) -> None:
        if self.loaded is None:
            return
        log.info("unloaded %s after %g idle seconds", self.loaded.recogniser.name, self._unload_s)
        self.loaded = None
        task = asyncio.create_task(self._free())
        self._freeing.add(task)
        task.add_done_callback(self._freeing.discard)

    async def _free(self) -> None:
        self.loaded = None
        await asyncio.to_thread(give_back)


def about(loaded: Loaded) -> dict[str, Any]:
    """Return what /status says of a model."""
    model, draft = loaded.recogniser, loaded.draft
    return {
        "model": model.name,
        "device": model.device,
        "compute_type": model.compute_type,
        "threads": model.threads,
        "multilingual": model.multilingual,
        "choice_reason": loaded.reason,
        "measured_rtf": loaded.rtf,
        "model_bytes": model.memory_bytes,
        "draft": draft.name if draft else None,
        "draft_bytes": draft.memory_bytes if draft and draft is not model else 0,
    }


def _heard(task: asyncio.Task[Loaded]) -> None:
    """Take note of a failure, even if everybody who waited has left."""
    if not task.cancelled():
        task.exception()

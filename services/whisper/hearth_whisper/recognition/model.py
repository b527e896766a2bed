"""The model in memory: loaded on demand, unloaded when idle; and its capabilities."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_serving.server import run_in_daemon
from hearth_whisper.recognition import Options, Recogniser
from hearth_whisper.recognition.resources import release_memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The model, its draft, and the reason for its selection."""

    recogniser: Recogniser
    draft: Recogniser | None
    """The model for partial results; None makes none."""
    reason: str
    utterance_s: float | None = None
    """Seconds of work for an utterance of 3 s, as measured for the selection."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model supports; still known while it is unloaded."""

    name: str
    multilingual: bool
    languages: tuple[str, ...]


Load = Callable[[], LoadedModel]
"""Loads, in a thread; raises ServiceError."""


class ModelManager:
    """Loads the model once for all requests that wait, and frees it after an idle time."""

    def __init__(self, load: Load, unload_s: float | None) -> None:
        """Take the function that loads; `unload_s` None never frees the model."""
        self._load_function, self._unload_s = load, unload_s
        self._loading: asyncio.Task[LoadedModel] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._freeing: set[asyncio.Task[None]] = set()
        self._users = 0
        self._closed = False
        self.loaded: LoadedModel | None = None
        self.description: dict[str, Any] = {}
        """Names and numbers of the model that was loaded last."""
        self.capabilities: Capabilities | None = None
        """Those of the model that was loaded last."""
        self.loads = 0
        self.failure: str | None = None
        """Why the last load failed; the next request retries."""

    @property
    def is_loading(self) -> bool:
        """Whether a load is running."""
        return self._loading is not None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[LoadedModel]:
        """Yield the model, loaded first if necessary, and keep it; raises ServiceError."""
        self._users += 1
        if self._idle_timer:
            self._idle_timer.cancel()
        try:
            yield await self._get()
        finally:
            self._users -= 1
            if not self._users:
                self._start_idle_timer()

    async def close(self) -> None:
        """Free the model for good; requests that wait for it fail."""
        self._closed = True
        if self._idle_timer:
            self._idle_timer.cancel()
        if self._loading:
            self._loading.cancel()
            with suppress(asyncio.CancelledError, ServiceError):
                await self._loading
        await self._free()

    async def _get(self) -> LoadedModel:
        while self.loaded is None:
            if self._closed:
                raise stopping_error()
            if self._loading is None:
                self._loading = asyncio.create_task(self._load())
                self._loading.add_done_callback(_retrieve_error)
            # Shielded: a request that is cancelled must not cancel the load of the others.
            try:
                return await asyncio.shield(self._loading)
            except asyncio.CancelledError:
                if self._closed:
                    raise stopping_error() from None
                raise
        return self.loaded

    async def _load(self) -> LoadedModel:
        try:
            if self._freeing:  # two of them at once might not fit
                await asyncio.gather(*self._freeing)
            loaded = await run_in_daemon(self._load_function)
        except ServiceError as error:
            self._fail(str(error))
            raise
        except Exception as error:  # such as MemoryError
            failure = f"the model cannot be loaded: {first_line(error)}"
            self._fail(failure)
            raise EngineError(failure, status=503) from error
        finally:
            self._loading = None
        self.loaded, self.failure, self.description = loaded, None, _describe(loaded)
        self.capabilities = capabilities_of(loaded.recogniser)
        self.loads += 1
        log.info("loaded %s: %s", loaded.recogniser.name, loaded.reason)
        return loaded

    def _fail(self, failure: str) -> None:
        self.failure = failure
        if self.loads:  # a failure of the first load ends the server with this message
            log.warning("loading failed, the next request retries: %s", failure)

    def _start_idle_timer(self) -> None:
        if self._unload_s is not None and not self._closed:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._unload_s, self._unload)

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
        await asyncio.to_thread(release_memory)


def _describe(loaded: LoadedModel) -> dict[str, Any]:
    """Return a model's part of /status."""
    model, draft = loaded.recogniser, loaded.draft
    return {
        "model": model.name,
        "device": model.device,
        "compute_type": model.compute_type,
        "threads": model.threads,
        "multilingual": model.multilingual,
        "choice_reason": loaded.reason,
        "measured_utterance_s": loaded.utterance_s and round(loaded.utterance_s, 3),
        "model_bytes": model.memory_bytes,
        "draft": draft.name if draft else None,
        "draft_bytes": draft.memory_bytes if draft and draft is not model else 0,
    }


def _retrieve_error(task: asyncio.Task[LoadedModel]) -> None:
    """Retrieve a failure even if all requests were cancelled, so that asyncio logs nothing."""
    if not task.cancelled():
        task.exception()


def capabilities_of(model: Recogniser) -> Capabilities:
    """Return what a model supports."""
    return Capabilities(model.name, model.multilingual, model.languages)


def check_options(model: Capabilities, options: Options) -> None:
    """Raise ServiceError for a language or a translation that this model does not support."""
    if options.translate and not model.multilingual:
        raise ServiceError(
            f"{model.name} supports English only and cannot translate",
            param="model",
            code="not_multilingual",
        )
    if options.language is None or options.language in model.languages:
        return
    hint = "it supports English only" if not model.multilingual else "see Whisper's list of codes"
    raise ServiceError(
        f"{model.name} does not support the language {options.language[:20]!r}: {hint}",
        param="language",
        code="unsupported_language",
    )


def partial_options(options: Options) -> Options:
    """Return the options of a partial result: a beam of one, no timestamps."""
    return Options(options.language, options.prompt, 0.0, options.translate, vad=False, greedy=True)


def can_draft(model: Recogniser, draft: Recogniser, options: Options) -> bool:
    """Whether the draft supports the language; an English one writes garbage for others."""
    if options.translate and not draft.multilingual:
        return False
    if draft.multilingual or not model.multilingual:
        return options.language is None or options.language in draft.languages
    return options.language == "en"


def stopping_error() -> ServiceError:
    """Return the error for requests that the end of the server interrupts."""
    return ServiceError("the server is stopping", status=503, retry_after_s=5)

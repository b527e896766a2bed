"""The speech server: its routes, the loading of its model, and its start."""

import argparse
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from hearth_kokoro.engines.selection import SelectedEngine, select_engine
from hearth_kokoro.jobs.runner import JobRunner
from hearth_kokoro.jobs.store import JobStore
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.synthesis.synthesizer import Synthesizer
from hearth_kokoro.voices import Voices
from hearth_kokoro.web import endpoints
from hearth_kokoro.web.jobs import PATH, create_job, job, job_audio
from hearth_kokoro.web.limits import Limits
from hearth_kokoro.web.speech import create_speech
from hearth_kokoro.web.state import LoadedModel, ServerState
from hearth_kokoro.web.stream import stream_speech
from hearth_serving import application
from hearth_serving.application import Fail
from hearth_serving.page import page_routes
from hearth_serving.server import run, run_in_daemon

log = logging.getLogger(__name__)

PAGE = Path(__file__).parent.parent / "page"
# The page loads the worklet with its first sound, not with the document.
_LAZY_FILES = frozenset(["sample_queue.mjs", "worklet.mjs"])

Load = Callable[[], Awaitable[LoadedModel]]


def make_app(state: ServerState, load: Load, fail: Fail) -> Starlette:
    """Return the application; it answers at once and speaks when `load` has ended.

    `fail` is called with the reason if loading fails.
    """

    async def start() -> None:
        loaded = await load()
        if state.state_folder:
            store = JobStore(state.state_folder / "jobs")
            state.jobs = JobRunner(store, loaded.synthesizer, loaded.voices)
        state.loaded = loaded

    async def close() -> None:
        if state.jobs:
            await state.jobs.close()
        if state.loaded:
            await state.loaded.synthesizer.close()

    settings = {
        "text_limit": state.limits.text_characters,
        "job_limit": state.limits.job_characters,
        "job_limit_shown": f"{state.limits.job_characters:,}",
        "key_wanted": "no" if state.key is None else "yes",
    }
    routes = [
        Route("/health", endpoints.health),
        Route("/status", endpoints.status),
        Route("/metrics", endpoints.metrics),
        Route("/v1/models", endpoints.models),
        Route("/v1/models/{name}", endpoints.model),
        Route("/v1/audio/voices", endpoints.voices),
        Route("/v1/audio/speech", create_speech, methods=["POST"]),
        WebSocketRoute("/v1/audio/stream", stream_speech),
        Route(PATH, create_job, methods=["POST"]),
        Route(PATH + "/{id}", job, methods=["GET", "DELETE"]),
        Route(PATH + "/{id}/audio", job_audio),
        *page_routes(PAGE, settings, _LAZY_FILES),
    ]
    return application.make_app(routes, state, load=start, close=close, fail=fail)


def serve(options: argparse.Namespace, key: str | None, limits: Limits) -> None:
    """Serve until SIGTERM; raises ServiceError if the server cannot start."""
    state = ServerState(limits, key, frozenset(options.origin), state_folder=options.state)

    async def load() -> LoadedModel:
        started = time.monotonic()
        loaded = await _load_model(options)
        engine = loaded.engine
        log.info(
            "ready after %.1f s: %s, %s, %d threads (%s)",
            time.monotonic() - started,
            engine.model,
            engine.provider,
            engine.threads,
            loaded.reason,
        )
        state.metrics.watch_synthesizer(loaded.synthesizer)
        return loaded

    def app_with(fail: Fail) -> Starlette:
        return make_app(state, load, fail)

    run(state, options.host, options.port, app_with, lambda: state.loaded is not None)


async def _load_model(options: argparse.Namespace) -> LoadedModel:
    """Load everything off the event loop, and warm the engine up."""
    voices, selected, phonemizer = await run_in_daemon(lambda: _load_files(options))
    synthesizer = Synthesizer(selected.engine, voices, phonemizer)
    await synthesizer.start()
    languages = phonemizer.languages()
    return LoadedModel(synthesizer, voices, selected.engine, selected.reason, languages)


def _load_files(options: argparse.Namespace) -> tuple[Voices, SelectedEngine, Phonemizer]:
    voices = Voices.load(options.voices)
    voice = voices.get(voices.names[0]).styles
    selected = select_engine(options.model, options.state, voice=voice, engine=options.engine)
    return voices, selected, Phonemizer()

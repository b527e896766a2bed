"""The web application, and the start of the server with its model and its satellites."""

import argparse
import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from hearth_serving import application
from hearth_serving.application import Fail
from hearth_serving.errors import ServiceError
from hearth_serving.forms import UploadSpace
from hearth_serving.page import page_routes
from hearth_serving.server import run
from hearth_whisper.limits import Limits
from hearth_whisper.live import vad
from hearth_whisper.recognition.model_selection import ModelLoader, ModelSettings
from hearth_whisper.recognition.scheduler import Scheduler, SchedulerLimits
from hearth_whisper.web import status
from hearth_whisper.web.state import ServerState
from hearth_whisper.web.stream import transcribe_stream
from hearth_whisper.web.transcriptions import create_transcription, create_translation
from hearth_whisper.wyoming.server import SatelliteServer, start_server

log = logging.getLogger(__name__)

PAGE = Path(__file__).parent.parent / "page"
# Loaded with the microphone, not with the page.
_NOT_PRELOADED = frozenset(["worklet.mjs"])
_POLL_S = 0.05

Step = Callable[[], Awaitable[None]]


def make_app(state: ServerState, load: Step, close: Step, fail: Fail) -> Starlette:
    """Return the application; it responds at once, and transcribes when `load` has ended.

    `fail` is called with the error of `load`.
    """
    placeholders = {
        "key_wanted": "no" if state.key is None else "yes",
        "upload_bytes": state.limits.body_bytes,
    }
    routes = [
        Route("/health", status.get_health),
        Route("/status", status.get_status),
        Route("/metrics", status.get_metrics),
        Route("/v1/models", status.list_models),
        Route("/v1/models/{name}", status.get_model),
        Route("/v1/audio/transcriptions", create_transcription, methods=["POST"]),
        Route("/v1/audio/translations", create_translation, methods=["POST"]),
        WebSocketRoute("/v1/audio/transcriptions/stream", transcribe_stream),
        *page_routes(PAGE, placeholders, _NOT_PRELOADED),
    ]
    state.metrics.watch_server(lambda: state.live, lambda: state.uploads.used_bytes)
    return application.make_app(routes, state, load=load, close=close, fail=fail)


def serve(options: argparse.Namespace, key: str | None, limits: Limits) -> None:
    """Serve until a signal stops the server; raises ServiceError when it cannot."""
    # For large uploads; /tmp is in memory on many machines.
    tempfile.tempdir = str(options.state) if options.state else None
    models = tuple(options.model)
    settings = ModelSettings(models, options.draft, options.partials, options.device, options.state)
    scheduler = Scheduler(
        ModelLoader(settings), SchedulerLimits(share=options.share, unload_s=options.unload)
    )
    state = ServerState(
        limits=limits,
        key=key,
        origins=frozenset(options.origin),
        scheduler=scheduler,
        uploads=UploadSpace(limits.scratch_bytes),
        candidates=frozenset(folder.name for folder in models),
    )
    satellites: SatelliteServer | None = None
    was_ready = False

    async def load() -> None:
        nonlocal satellites, was_ready
        if options.wyoming_port is not None:
            satellites = await start_server(
                scheduler,
                options.wyoming_host,
                options.wyoming_port,
                on_end=state.metrics.ended,
                on_latency=state.metrics.observe_final,
            )
        await scheduler.start()
        # Loaded before the first stream; a missing detector stops the server here.
        await asyncio.to_thread(vad.shared_model)
        await _wait_until_ready(scheduler)
        was_ready = True

    async def close() -> None:
        if satellites:
            await satellites.close()
        await scheduler.close()

    def app_of(fail: Fail) -> Starlette:
        return make_app(state, load, close, fail)

    run(state, options.host, options.port, app_of, lambda: was_ready)


async def _wait_until_ready(scheduler: Scheduler) -> None:
    """Wait for the first load; raises ServiceError when it fails."""
    while not scheduler.ready:
        if scheduler.failure:
            raise ServiceError(scheduler.failure)
        await asyncio.sleep(_POLL_S)

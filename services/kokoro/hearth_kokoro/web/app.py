"""The speech server's web application."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from hearth_kokoro.web import status
from hearth_kokoro.web.live import stream
from hearth_kokoro.web.speech import speech
from hearth_kokoro.web.state import Loaded, ServerState
from hearth_serving import application
from hearth_serving.application import Fail
from hearth_serving.page import page_routes

PAGE = Path(__file__).parent.parent / "page"
# The worklet is loaded where sound is, not with the document.
_LATER = frozenset(["queue.mjs", "worklet.mjs"])

Load = Callable[[], Awaitable[Loaded]]


def make_app(desk: ServerState, load: Load, fail: Fail) -> Starlette:
    """Return the application; it answers at once and speaks when `load` has ended.

    `fail` is told why it will never speak.
    """

    async def begin() -> None:
        desk.loaded = await load()

    async def close() -> None:
        if desk.loaded:
            await desk.loaded.speaker.close()

    told = {
        "text_limit": desk.limits.text_characters,
        "key_wanted": "no" if desk.key is None else "yes",
    }
    routes = [
        Route("/health", status.health),
        Route("/status", status.status),
        Route("/metrics", status.metrics),
        Route("/v1/models", status.models),
        Route("/v1/models/{name}", status.model),
        Route("/v1/audio/voices", status.voices),
        Route("/v1/audio/speech", speech, methods=["POST"]),
        WebSocketRoute("/v1/audio/stream", stream),
        *page_routes(PAGE, told, _LATER),
    ]
    return application.make_app(routes, desk, load=begin, close=close, fail=fail)

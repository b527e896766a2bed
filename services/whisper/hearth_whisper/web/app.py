"""The listening server's web application."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from hearth_serving import application
from hearth_serving.application import Fail
from hearth_serving.page import page_routes
from hearth_whisper.web import status
from hearth_whisper.web.state import ServerState
from hearth_whisper.web.stream import stream
from hearth_whisper.web.transcriptions import transcriptions, translations

PAGE = Path(__file__).parent.parent / "page"
# The worklet is loaded where the microphone is, not with the document.
_LATER = frozenset(["worklet.mjs"])

Step = Callable[[], Awaitable[None]]


def make_app(desk: ServerState, load: Step, close: Step, fail: Fail) -> Starlette:
    """Return the application; it answers at once and listens when `load` has ended.

    `fail` is told why it never will.
    """
    told = {
        "key_wanted": "no" if desk.key is None else "yes",
        "upload_bytes": desk.limits.body_bytes,
    }
    routes = [
        Route("/health", status.health),
        Route("/status", status.status),
        Route("/metrics", status.metrics),
        Route("/v1/models", status.models),
        Route("/v1/models/{name}", status.model),
        Route("/v1/audio/transcriptions", transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", translations, methods=["POST"]),
        WebSocketRoute("/v1/audio/transcriptions/stream", stream),
        *page_routes(PAGE, told, _LATER),
    ]
    desk.metrics.watch_desk(lambda: desk.live, lambda: desk.uploads.used_bytes)
    return application.make_app(routes, desk, load=load, close=close, fail=fail)

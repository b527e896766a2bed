"""The speech server's web application."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from hearth_kokoro.errors import SpeechError
from hearth_kokoro.web import status
from hearth_kokoro.web.desk import Desk, Loaded
from hearth_kokoro.web.guard import Guard, answer
from hearth_kokoro.web.live import stream
from hearth_kokoro.web.page import page_routes
from hearth_kokoro.web.speech import speech, unforeseen

log = logging.getLogger("hearth_kokoro")

Load = Callable[[], Awaitable[Loaded]]


def make_app(desk: Desk, load: Load, fail: Callable[[BaseException], None]) -> Starlette:
    """Return the application; it answers at once and speaks when `load` has ended.

    `fail` is told why it will never speak.
    """
    origins = sorted(desk.origins)
    # Without origins no header of CORS is ever sent, and no browser hands an answer on.
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["Retry-After"],
    )
    app = Starlette(
        routes=[
            Route("/health", status.health),
            Route("/status", status.status),
            Route("/metrics", status.metrics),
            Route("/v1/models", status.models),
            Route("/v1/models/{name}", status.model),
            Route("/v1/audio/voices", status.voices),
            Route("/v1/audio/speech", speech, methods=["POST"]),
            WebSocketRoute("/v1/audio/stream", stream),
            *page_routes(desk),
        ],
        middleware=[*([cors] if origins else []), Middleware(Guard, desk=desk)],
        exception_handlers={HTTPException: _http_error, Exception: _other_error},
        lifespan=_lifespan(desk, load, fail),
    )
    app.router.redirect_slashes = False
    app.state.desk = desk
    return app


def _lifespan(
    desk: Desk, load: Load, fail: Callable[[BaseException], None]
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    async def begin() -> None:
        try:
            desk.loaded = await load()
        except Exception as error:
            fail(error)

    @asynccontextmanager
    async def run(_: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(begin())
        try:
            yield
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            if desk.loaded:
                await desk.loaded.speaker.close()

    return run


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls this for nothing else
    if error.status_code == 405:
        said = SpeechError("this address does not take that method", status=405)
    else:
        said = SpeechError("there is nothing at this address", status=error.status_code)
    response = answer(said)
    response.headers.update(error.headers or {})
    return response


async def _other_error(_: Request, error: Exception) -> Response:
    return answer(unforeseen(error))

"""A server's web application: it answers at once, and works when its model is loaded."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hearth_serving.answers import answer, unforeseen
from hearth_serving.door import Door, Guard
from hearth_serving.errors import ServiceError

Fail = Callable[[BaseException], None]
"""Is told why a server will never be ready."""
Step = Callable[[], Awaitable[None]]


def make_app(
    routes: Sequence[BaseRoute], door: Door, *, load: Step, close: Step, fail: Fail
) -> Starlette:
    """Return the application behind `door`, which handlers find as `app.state.desk`.

    `load` runs beside the first answers; what it raises goes to `fail`. `close` runs at the end.
    """
    origins = sorted(door.origins)
    # Without origins no header of CORS is ever sent, and no browser hands an answer on.
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["Retry-After"],
    )

    async def begin() -> None:
        try:
            await load()
        except Exception as error:
            fail(error)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(begin())
        try:
            yield
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            await close()

    app = Starlette(
        routes=routes,
        middleware=[*([cors] if origins else []), Middleware(Guard, door=door)],
        exception_handlers={HTTPException: _http_error, Exception: _other_error},
        lifespan=life,
    )
    app.router.redirect_slashes = False
    app.state.desk = door
    return app


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls this for nothing else
    if error.status_code == 405:
        said = ServiceError("this address does not take that method", status=405)
    else:
        said = ServiceError("there is nothing at this address", status=error.status_code)
    response = answer(said)
    response.headers.update(error.headers or {})
    return response


async def _other_error(_: Request, error: Exception) -> Response:
    return answer(unforeseen(error))

"""A server's web application: access control, and answers while its model still loads."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from hearth_serving.errors import ServiceError, error_response, log_unexpected
from hearth_serving.limits import Limits
from hearth_serving.page import is_page

WITHOUT_KEY = frozenset(["/health"])
"""Paths that answer without a key: they only report that the server is up."""
_RETRY_AFTER_S = 5

Fail = Callable[[BaseException], None]
"""Is called with the reason why a server will never be ready."""
Step = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class AppState:
    """The settings that decide about access; each service adds its own state."""

    limits: Limits
    key: str | None = None
    origins: frozenset[str] = frozenset()
    open_paths: frozenset[str] = WITHOUT_KEY
    sockets: Callable[[], int] = lambda: 0
    """Returns how many sockets are open; the running server sets it."""

    @property
    def is_open(self) -> bool:
        """Return whether everyone who can connect may use this server."""
        return self.key is None

    def accepts_key(self, authorization: list[str]) -> bool:
        """Return whether this is the key, in a time that does not depend on the input."""
        if self.key is None:
            return True
        scheme, _, sent = authorization[0].strip().partition(" ") if authorization else ("", "", "")
        right = hmac.compare_digest(_digest(self.key), _digest(sent.strip()))
        # With two headers, a proxy before us may use the other one: then neither is accepted.
        return right and scheme.lower() == "bearer" and len(authorization) == 1


def make_app(
    routes: Sequence[BaseRoute], state: AppState, *, load: Step, close: Step, fail: Fail
) -> Starlette:
    """Return the application; its handlers find `state` as `app.state.server`.

    `load` runs beside the first answers; what it raises goes to `fail`. `close` runs at the end.
    """
    origins = sorted(state.origins)
    # Without origins no CORS header is sent, and no browser gives a response to another site.
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["Retry-After"],
    )

    async def load_or_fail() -> None:
        try:
            await load()
        except Exception as error:
            fail(error)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(load_or_fail())
        try:
            yield
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            await close()

    app = Starlette(
        routes=routes,
        middleware=[*([cors] if origins else []), Middleware(AccessMiddleware, state=state)],
        exception_handlers={HTTPException: _http_error, Exception: _other_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.server = state
    return app


class AccessMiddleware:
    """Requires the key and rejects pages of other sites, for HTTP and for WebSockets."""

    def __init__(self, app: ASGIApp, state: AppState) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        error = self._check(scope) if scope["type"] in ("http", "websocket") else None
        if error is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(error_response(error))
        else:
            await error_response(error)(scope, receive, send)

    def _check(self, scope: Scope) -> ServiceError | None:
        if scope["path"] in self._state.open_paths:
            return None
        if self._state.sockets() > self._state.limits.connections:
            return too_many_connections()
        headers = Headers(scope=scope)
        # A person can only type the key into a page that is there; the page itself holds no secret.
        page = is_page(scope["path"])
        if not page and not self._state.accepts_key(headers.getlist("authorization")):
            return ServiceError("wrong or missing API key", status=401, code="invalid_api_key")
        origin = headers.get("origin")
        # CORS is not enough: it lets a page send, and WebSockets do not use it at all.
        if origin is None or origin in self._state.origins:
            return None
        if _is_own_origin(origin, headers.get("host", "")):
            return None
        message = "a page of another site may not use this server; --origin names those that may"
        return ServiceError(message, status=403, code="foreign_origin")


def too_many_connections() -> ServiceError:
    """Return the error for a socket beyond the limit."""
    message = "too many connections are open; try again"
    code = "too_many_connections"
    return ServiceError(message, status=503, code=code, retry_after_s=_RETRY_AFTER_S)


def _is_own_origin(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    # Equal lengths for all keys: compare_digest leaks the length of what differs in length.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls this for nothing else
    if error.status_code == 405:
        known = ServiceError("this address does not take that method", status=405)
    else:
        known = ServiceError("there is nothing at this address", status=error.status_code)
    response = error_response(known)
    response.headers.update(error.headers or {})
    return response


async def _other_error(_: Request, error: Exception) -> Response:
    return error_response(log_unexpected(error))

"""Who may come in, before anything is read: a key, a site, and how many."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from hearth_serving.answers import answer
from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits
from hearth_serving.page import is_page

OPEN = frozenset(["/health"])
"""What answers without a key: it says no more than that the server is up."""
_AGAIN_S = 5


@dataclass(slots=True)
class Door:
    """What decides who comes in; a service's desk is one, with what its answers need besides."""

    limits: Limits
    key: str | None = None
    origins: frozenset[str] = frozenset()
    sockets: Callable[[], int] = lambda: 0
    """How many sockets are open now; whoever listens says so."""

    def opens(self, authorization: list[str]) -> bool:
        """Say whether this is the key, in a time that does not depend on what was sent."""
        if self.key is None:
            return True
        scheme, _, sent = authorization[0].strip().partition(" ") if authorization else ("", "", "")
        right = hmac.compare_digest(_digest(self.key), _digest(sent.strip()))
        # Of two headers, a proxy before us may believe the other: then neither opens anything.
        return right and scheme.lower() == "bearer" and len(authorization) == 1


class Guard:
    """Asks for the key and turns other sites' pages away, for HTTP and for WebSockets."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        """Stand before `app`."""
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(answer(refusal))
        else:
            await answer(refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        if scope["path"] in OPEN:
            return None
        if self._door.sockets() > self._door.limits.connections:
            return too_many_connections()
        headers = Headers(scope=scope)
        # The page has to be there before anybody can write a key into it; it tells nothing.
        opened = is_page(scope["path"]) or self._door.opens(headers.getlist("authorization"))
        if not opened:
            return ServiceError("wrong or missing API key", status=401, code="invalid_api_key")
        origin = headers.get("origin")
        # CORS alone would not do: it lets a page send, and WebSockets do not know it at all.
        if origin is None or origin in self._door.origins or _same(origin, headers.get("host", "")):
            return None
        message = "a page of another site may not use this server; --origin names those that may"
        return ServiceError(message, status=403, code="foreign_origin")


def too_many_connections() -> ServiceError:
    """Return what is said where more sockets are open than are served."""
    message = "too many connections are open; try again"
    code = "too_many_connections"
    return ServiceError(message, status=503, code=code, retry_after_s=_AGAIN_S)


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False


def _digest(key: str) -> bytes:
    # Equal lengths for all keys: compare_digest leaks the length of what differs in length.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

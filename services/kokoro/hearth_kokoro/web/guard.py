"""Who may come in, what may be read of them, and how long: before any answer is made."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from hearth_kokoro.errors import SpeechError
from hearth_kokoro.web.asked import error_body
from hearth_kokoro.web.desk import Desk
from hearth_kokoro.web.page import is_page
from hearth_kokoro.web.settings import Limits

log = logging.getLogger("hearth_kokoro")

OPEN = frozenset(["/health"])
"""What answers without a key: it says no more than that the server is up."""
_AGAIN_S = 5


class Guard:
    """Asks for the key and turns other sites' pages away, for HTTP and for WebSockets."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        """Stand before `app`."""
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(answer(refusal))
        else:
            await answer(refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> SpeechError | None:
        if scope["path"] in OPEN:
            return None
        if self._desk.sockets() > self._desk.limits.connections:
            return too_many_connections()
        headers = Headers(scope=scope)
        # The page has to be there before anybody can write a key into it; it tells nothing.
        opened = is_page(scope["path"]) or self._desk.opens(headers.getlist("authorization"))
        if not opened:
            return SpeechError("wrong or missing API key", status=401, code="invalid_api_key")
        origin = headers.get("origin")
        # CORS alone would not do: it lets a page send, and WebSockets do not know it at all.
        if origin is None or origin in self._desk.origins or _same(origin, headers.get("host", "")):
            return None
        message = "a page of another site may not use this server; --origin names those that may"
        return SpeechError(message, status=403, code="foreign_origin")


def too_many_connections() -> SpeechError:
    """Return what is said where more sockets are open than are served."""
    message = "too many connections are open; try again"
    code = "too_many_connections"
    return SpeechError(message, status=503, code=code, retry_after_s=_AGAIN_S)


def answer(error: SpeechError) -> JSONResponse:
    """Turn an error into HTTP."""
    headers = {"Cache-Control": "no-store"}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.code == "too_many_connections":
        headers["Connection"] = "close"
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error), status_code=error.status, headers=headers)


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read a body, counting as it comes; raises SpeechError when it is too long or too slow."""
    try:
        async with asyncio.timeout(limits.body_s):
            return await _counted(request, limits.body_bytes)
    except TimeoutError:
        message = f"the request did not arrive within {limits.body_s:g} s"
        raise SpeechError(message, status=408, code="request_timeout") from None
    except ClientDisconnect:
        raise SpeechError("the request was cut off", code="cut_off") from None


async def _counted(request: Request, most: int) -> bytes:
    content, length = bytearray(), 0
    async for part in request.stream():
        length += len(part)
        if length <= most:
            content += part
        # A client hears why only after it has sent all; one that sends for ever does not.
        elif length > 8 * most:
            break
    if length > most:
        message = f"a request has at most {most} bytes"
        raise SpeechError(message, status=413, code="request_too_large")
    return bytes(content)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> bool:
    """Do `work`, and stop it at once when the client leaves; return whether it left."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return not task.done()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() != ""
    except ValueError:
        return False

"""A blocking WebSocket: one thread of its own does all reads and writes.

websockets' own blocking client reads in one thread and writes in another. Over TLS 1.3 that loses
about one opening in two hundred: OpenSSL allows only one call at a time on a connection, and the
server's tickets arrive just when the request is written.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from anyio.from_thread import BlockingPortal, start_blocking_portal
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK, InvalidStatus

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, client_errors

# The name of its thread.
THREAD = "websocket"


@dataclass(frozen=True, slots=True)
class WebSocket:
    """An open connection; it raises the exceptions of `websockets`, and TimeoutError."""

    _portal: BlockingPortal
    _connection: ClientConnection

    def send(self, message: str | bytes) -> None:
        """Send one message."""
        self._portal.call(self._connection.send, message)

    def recv(self, timeout: float | None = None) -> str | bytes:
        """Return the next message; TimeoutError after `timeout` seconds without one."""
        return self._portal.call(self._next, timeout)

    def close(self) -> None:
        """Close it; a waiting `recv` raises."""
        self._portal.call(self._connection.close)

    def __iter__(self) -> Iterator[str | bytes]:
        """Yield messages until the other side closes the connection in order."""
        while True:
            try:
                yield self.recv()
            except ConnectionClosedOK:
                return

    async def _next(self, within_s: float | None) -> str | bytes:
        async with asyncio.timeout(within_s):
            return await self._connection.recv()


def connection(endpoint: Endpoint, path: str, **options: Any) -> connect:
    """Return a WebSocket that is not open yet; `options` are those of `websockets`."""
    at = urlsplit(endpoint.url)
    scheme, port = ("wss", 443) if at.scheme == "https" else ("ws", 80)
    url = f"{scheme}://{endpoint.host or at.netloc}{at.path.rstrip('/')}{path}"
    if endpoint.trust:
        options["ssl"] = endpoint.trust
    if endpoint.host:
        options |= {"host": at.hostname, "port": at.port or port}
    return connect(url, additional_headers=endpoint.authorization, proxy=None, **options)


@contextmanager
def opened(endpoint: Endpoint, path: str, within_s: float, **options: Any) -> Iterator[WebSocket]:
    """Open a server's WebSocket, and close it at the end of the block; for `options` see above."""
    with start_blocking_portal(name=THREAD) as portal, ExitStack() as stack:
        opening = connection(endpoint, path, open_timeout=within_s, **options)
        with client_errors(f"{endpoint.name}{path}", within_s):
            try:
                socket = stack.enter_context(portal.wrap_async_context_manager(opening))
            except InvalidStatus as error:
                status = error.response.status_code
                raise ClientError(f"{endpoint.name}{path}: HTTP {status}") from error
        yield WebSocket(portal, socket)

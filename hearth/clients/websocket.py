"""A blocking WebSocket: one thread of its own does all reads and writes.

websockets' own blocking client reads in one thread and writes in another. Over TLS 1.3 that loses
about one opening in two hundred: OpenSSL allows only one call at a time on a connection, and the
server's tickets arrive just when the request is written.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK

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


@contextmanager
def opened(
    url: str, at: tuple[str, int], trust: ssl.SSLContext | None, within_s: float, **options: Any
) -> Iterator[WebSocket]:
    """Open `url` at an address and a port, without DNS; close it at the end of the block.

    `options` are those of `websockets.asyncio.client.connect`.

    Raises:
        OSError: there is no answer, TimeoutError: not in time.
        websockets.exceptions.InvalidHandshake: it is refused; InvalidStatus by an HTTP status.
    """
    options |= {"host": at[0], "port": at[1], "proxy": None, "open_timeout": within_s}
    options |= {"ssl": trust} if trust else {}
    with (
        start_blocking_portal(name=THREAD) as portal,
        portal.wrap_async_context_manager(connect(url, **options)) as connection,
    ):
        yield WebSocket(portal, connection)

"""A blocking WebSocket: one thread of its own does all reads and writes.

websockets' own blocking client reads in one thread and writes in another. Over TLS 1.3 that loses
about one opening in two hundred: OpenSSL allows only one call at a time on a connection, and the
server's tickets arrive just when the request is written.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedOK

# The name of its thread.
THREAD = "websocket"

_Got = TypeVar("_Got")


class WebSocket:
    """An open connection; it raises the exceptions of `websockets`, and TimeoutError."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: ClientConnection) -> None:
        """Use `connection`, which belongs to a `loop` in another thread."""
        self._loop, self._connection = loop, connection

    def send(self, message: str | bytes) -> None:
        """Send one message."""
        _run(self._loop, self._connection.send(message))

    def recv(self, timeout: float | None = None) -> str | bytes:
        """Return the next message; TimeoutError after `timeout` seconds without one."""
        return _run(self._loop, self._next(timeout))

    def close(self) -> None:
        """Close it; a waiting `recv` raises."""
        _run(self._loop, self._connection.close())

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
    url: str,
    at: tuple[str, int],
    trust: ssl.SSLContext | None,
    within_s: float,
    **options: Any,
) -> Iterator[WebSocket]:
    """Open `url` at an address and a port, without DNS; close it at the end of the block.

    `options` are those of `websockets.asyncio.client.connect`.

    Raises:
        OSError: there is no answer, TimeoutError: not in time.
        websockets.exceptions.InvalidHandshake: it is refused; InvalidStatus by an HTTP status.
    """
    with ExitStack() as stack:
        plug = socket.create_connection(at, timeout=within_s)
        stack.callback(plug.close)
        loop = stack.enter_context(_running())
        if trust:
            options |= {"ssl": trust}
        connection = _run(
            loop, _connected(url, sock=plug, proxy=None, open_timeout=within_s, **options)
        )
        web = WebSocket(loop, connection)
        stack.callback(web.close)
        yield web


async def _connected(url: str, **options: Any) -> ClientConnection:
    return await connect(url, **options)


@contextmanager
def _running() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=THREAD)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _Got]) -> _Got:
    return asyncio.run_coroutine_threadsafe(work, loop).result()

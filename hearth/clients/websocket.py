"""A WebSocket for code that simply waits: one thread reads and writes it, whoever calls.

websockets' own blocking client reads in one thread and writes in another. Over TLS 1.3 that loses
about one opening in two hundred, since OpenSSL lets only one at a time into a connection and the
server's tickets are read just when the request is written.
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

# What a call's thread is called, wherever threads are listed.
THREAD = "websocket"

_Got = TypeVar("_Got")


class WebSocket:
    """An open connection; what it raises is what `websockets` does, and TimeoutError."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: ClientConnection) -> None:
        """Speak over `connection`, which lives in a `loop` that runs in another thread."""
        self._loop, self._connection = loop, connection

    def send(self, message: str | bytes) -> None:
        """Send one message."""
        _run(self._loop, self._connection.send(message))

    def recv(self, timeout: float | None = None) -> str | bytes:
        """Return the next message; TimeoutError after `timeout` seconds without one."""
        return _run(self._loop, self._next(timeout))

    def close(self) -> None:
        """Hang up; whoever waits for a message is told so."""
        _run(self._loop, self._connection.close())

    def __iter__(self) -> Iterator[str | bytes]:
        """Yield what comes until the other side hangs up in order."""
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
    """Open `url` at an address and a port, without asking for the name; hang up at last.

    `options` are those of `websockets.asyncio.client.connect`.

    Raises:
        OSError: nobody answers there, TimeoutError not in time.
        websockets.exceptions.InvalidHandshake: it is refused; InvalidStatus with an HTTP answer.
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

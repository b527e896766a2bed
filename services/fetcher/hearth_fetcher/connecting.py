"""Connections to addresses that were checked, and no more bytes from them than allowed."""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext
from typing import Any

import httpcore

from hearth_fetcher.addresses import Guard
from hearth_fetcher.limits import Limits
from hearth_serving.errors import ServiceError


class Resolver:
    """Asks the house's resolver; a query that hangs occupies one of few threads."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "resolver")

    async def __call__(self, host: str) -> Sequence[str]:
        """Return the IPv4 addresses of a name, none if it has none."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _look_up, host)


def _look_up(host: str) -> Sequence[str]:
    try:
        # The dot keeps search domains away.
        rows = socket.getaddrinfo(f"{host}.", None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolves and checks a name at each connection, and connects to that very address.

    One for each page: all its connections share the limit of received bytes. TLS above it still
    verifies the certificate for the name.
    """

    def __init__(self, guard: Guard, limits: Limits, dial: httpcore.AsyncNetworkBackend) -> None:
        self._guard, self._limits, self._dial = guard, limits, dial
        self.left_bytes = limits.received_bytes

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of the checked addresses that accepts."""
        del timeout, local_address
        addresses = await self._guard.addresses(host)
        for address in addresses[: self._limits.addresses]:
            try:
                stream = await self._dial.connect_tcp(
                    address, port, timeout=self._limits.connect_s, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return _CountedStream(stream, self)
        raise ServiceError("the host accepts no connection", status=502, code="not_reachable")

    def take(self, count: int) -> None:
        """Count received bytes; raises ServiceError beyond the limit."""
        self.left_bytes -= count
        if self.left_bytes < 0:
            most = self._limits.received_bytes / 1024**2
            message = f"the server sent more than {most:g} MiB around the page"
            raise ServiceError(message, status=502, code="too_large")


class _CountedStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, owner: CheckedBackend) -> None:
        self._stream, self._owner = stream, owner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        data = await self._stream.read(max_bytes, timeout)
        self._owner.take(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _CountedStream(stream, self._owner)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

"""The server for satellites: it limits their number, and closes their connections."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from wyoming.error import Error

from hearth_serving.application import too_many_connections
from hearth_serving.limits import Limits
from hearth_serving.server import listen
from hearth_whisper.limits import SatelliteLimits
from hearth_whisper.live import vad
from hearth_whisper.live.vad import Vad
from hearth_whisper.wyoming.connection import Connection
from hearth_whisper.wyoming.satellite import SatelliteScheduler, SatelliteSession

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class SatelliteServer:
    """All connected satellites."""

    scheduler: SatelliteScheduler
    limits: SatelliteLimits
    open_vad: Callable[[], Awaitable[Vad]]
    on_end: Callable[[str], None]
    on_latency: Callable[[float], None]
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)
    _served: int = 0

    @property
    def connected(self) -> int:
        """How many satellites are served now."""
        return self._served

    @property
    def port(self) -> int:
        """The port in use."""
        assert self._server is not None  # noqa: S101 - open() sets it
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, listener: socket.socket) -> None:
        """Serve all connections to `listener`, which `close` closes."""
        self._server = await asyncio.start_server(
            self._connected, sock=listener, limit=self.limits.line_bytes
        )

    async def close(self) -> None:
        """Close all connections and cancel their work."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # Not a coroutine: before 3.12, asyncio logs an error when one is cancelled.
    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= 2 * self.limits.clients:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(Connection(reader, writer, self.limits)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: Connection) -> None:
        try:
            if self._served >= self.limits.clients:
                error = too_many_connections()
                await connection.send(Error(str(error), error.code))
                return
            self._served += 1
            try:
                session = SatelliteSession(
                    self.scheduler,
                    connection,
                    self.limits,
                    self.open_vad,
                    self.on_end,
                    self.on_latency,
                )
                await session.serve()
            finally:
                self._served -= 1
        finally:
            await connection.close()


async def start_server(
    scheduler: SatelliteScheduler,
    host: str,
    port: int,
    limits: SatelliteLimits | None = None,
    open_vad: Callable[[], Awaitable[Vad]] = vad.open_vad,
    on_end: Callable[[str], None] = lambda _: None,
    on_latency: Callable[[float], None] = lambda _: None,
) -> SatelliteServer:
    """Listen for satellites until `close()`; `port` 0 is any that is free.

    `on_end` gets the outcome of each recording, one of hearth_serving.metrics.OUTCOMES;
    `on_latency` gets the seconds from the end of speech to each final.

    Raises:
        ServiceError: the server cannot listen on the address.
    """
    listener = listen(host, port, Limits())
    listener.setblocking(False)
    server = SatelliteServer(scheduler, limits or SatelliteLimits(), open_vad, on_end, on_latency)
    await server.open(listener)
    address = f"[{host}]" if ":" in host else host
    log.info("listening for satellites on %s:%d", address, server.port)
    return server

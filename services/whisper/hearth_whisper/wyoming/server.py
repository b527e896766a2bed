"""The port that satellites call: how many of them, and until when."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from wyoming.error import Error

from hearth_serving.application import too_many_connections
from hearth_serving.limits import Limits
from hearth_serving.server import listen
from hearth_whisper.live import vad
from hearth_whisper.live.vad import Hears
from hearth_whisper.wyoming.limits import SatelliteLimits
from hearth_whisper.wyoming.link import Link
from hearth_whisper.wyoming.satellite import Listens, Satellite

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Satellites:
    """Everybody who is connected."""

    work: Listens
    limits: SatelliteLimits
    ear: Callable[[], Awaitable[Hears]]
    ended: Callable[[str], None]
    waited: Callable[[float], None]
    _server: asyncio.Server | None = None
    _talks: set[asyncio.Task[None]] = field(default_factory=set)
    _served: int = 0

    @property
    def connected(self) -> int:
        """How many are served now."""
        return self._served

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None  # noqa: S101 - start() has opened it
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, listener: socket.socket) -> None:
        """Answer whoever connects to `listener`, which is closed at the end."""
        self._server = await asyncio.start_server(
            self._connected, sock=listener, limit=self.limits.line_bytes
        )

    async def close(self) -> None:
        """Hang up on everybody, and stop what is done for them."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    # Not a coroutine: of those, asyncio before 3.12 complains when one is cancelled.
    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._talks) >= 2 * self.limits.clients:
            writer.transport.abort()
            return
        talk = asyncio.create_task(self._talk(Link(reader, writer, self.limits)))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, link: Link) -> None:
        try:
            if self._served >= self.limits.clients:
                error = too_many_connections()
                await link.tell(Error(str(error), error.code))
                return
            self._served += 1
            try:
                heard = Satellite(self.work, link, self.limits, self.ear, self.ended, self.waited)
                await heard.serve()
            finally:
                self._served -= 1
        finally:
            await link.close()


async def start(
    work: Listens,
    host: str,
    port: int,
    limits: SatelliteLimits | None = None,
    ear: Callable[[], Awaitable[Hears]] = vad.ear,
    ended: Callable[[str], None] = lambda _: None,
    waited: Callable[[float], None] = lambda _: None,
) -> Satellites:
    """Listen for satellites until `close()`; `port` 0 is any that is free.

    `ear` returns what hears one recording, which is Silero if nothing is said; `ended` is told
    how each recording ended, in the words of hearth_serving.metrics.OUTCOMES, `waited` how long
    each final took from the end of speech to the satellite.

    Raises:
        ServiceError: the address cannot be listened on.
    """
    listener = listen(host, port, Limits())
    listener.setblocking(False)
    satellites = Satellites(work, limits or SatelliteLimits(), ear, ended, waited)
    await satellites.open(listener)
    where = f"[{host}]" if ":" in host else host
    log.info("listening for satellites on %s:%d", where, satellites.port)
    return satellites

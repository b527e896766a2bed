"""One socket, where uvicorn leaves something open: slow headers, plain errors, floods of pings."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hearth_serving.answers import answer
from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits

# Pongs that nobody reads are kept until they are read, and no other bound holds for them.
_PONG_BYTES = 64 * 1024


class Wire(WebSocketsSansIOProtocol):
    """A WebSocket that ends with whoever asks for pongs and does not read them."""

    def handle_ping(self) -> None:
        """Answer a ping while its answers are read."""
        if self.transport.get_write_buffer_size() > _PONG_BYTES:
            self.transport.abort()
        else:
            super().handle_ping()


def line_of(limits: Limits) -> type[H11Protocol]:
    """Return how uvicorn speaks HTTP within these limits."""

    class Line(_Line):
        _limits = limits

    return Line


class _Line(H11Protocol):
    """Waits for headers only so long, and tells a person's program what is wrong as OpenAI does."""

    _limits: Limits
    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait; a flood of sockets is closed before anything is read."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self._limits.connections:
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; part of a request must soon be followed by the rest of its headers."""
        super().data_received(data)
        has_part = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not has_part:
            self._wait_no_more()
        elif self._too_late is None:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Say that this was no HTTP; uvicorn's own words are for a person at a terminal."""
        del msg
        self._refuse(ServiceError("this is not a valid HTTP request", code="invalid_http"))

    def _wait(self) -> None:
        self._too_late = self.loop.call_later(self._limits.headers_s, self._give_up)

    def _wait_no_more(self) -> None:
        if self._too_late:
            self._too_late.cancel()
            self._too_late = None

    def _give_up(self) -> None:
        message = f"the headers did not arrive within {self._limits.headers_s:g} s"
        self._refuse(ServiceError(message, status=408, code="request_timeout"))

    def _refuse(self, error: ServiceError) -> None:
        said = answer(error)
        headers = [*said.raw_headers, (b"connection", b"close")]
        events = (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=bytes(said.body)),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # in the middle of an answer nothing more can be said
        self.transport.close()

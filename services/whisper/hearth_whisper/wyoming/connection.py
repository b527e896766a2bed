"""Events of the Wyoming protocol on a socket with an untrusted client.

The library's own reader trusts every length in an event's header; this one does not.
"""

import asyncio
import contextlib
import json
from typing import Any

from wyoming.event import Event, Eventable, async_write_event

from hearth_serving.errors import ServiceError
from hearth_whisper.limits import SatelliteLimits

_TYPE_CHARACTERS = 64
_LINGER_S, _LINGER_READ_BYTES = 1.0, 64 * 1024


class Disconnected(Exception):
    """The satellite disconnected, or does not read any more."""


class Connection:
    """One connection: events in one after another, events out."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: SatelliteLimits
    ) -> None:
        """Take both directions; `reader` must hold a whole first line, so `limit=line_bytes`."""
        self._reader, self._writer, self._limits = reader, writer, limits
        self._next: asyncio.Task[Event | None] | None = None

    def read_ahead(self) -> asyncio.Task[Event | None]:
        """Return the task that reads the next event, started once; None is the end."""
        if self._next is None:
            self._next = asyncio.create_task(_read(self._reader, self._limits))
        return self._next

    async def receive(self, timeout_s: float) -> Event | None:
        """Return the next event, None when the satellite has disconnected.

        Raises:
            ServiceError: the event is invalid, too long, or incomplete after `timeout_s`.
        """
        reading = self.read_ahead()
        await asyncio.wait({reading}, timeout=max(0.0, timeout_s))
        if not reading.done():
            message = f"no complete event within {timeout_s:g} s"
            raise ServiceError(message, status=408, code="request_timeout")
        self._next = None
        return reading.result()

    async def send(self, *events: Eventable) -> None:
        """Send events; raises Disconnected when the satellite does not read them."""
        try:
            async with asyncio.timeout(self._limits.write_s):
                for one in events:
                    await async_write_event(one.event(), self._writer)
        except (TimeoutError, OSError):
            raise Disconnected from None

    async def close(self) -> None:
        """Close the connection; a satellite that reads soon still gets the last events."""
        try:
            await self._linger()
        finally:
            self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _linger(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LINGER_S):
                self._writer.write_eof()
                # If unread data is left, TCP resets the connection and the last event is lost.
                while await self._reader.read(_LINGER_READ_BYTES):
                    pass


async def _read(reader: asyncio.StreamReader, limits: SatelliteLimits) -> Event | None:
    try:
        header = _header(await reader.readuntil(b"\n"))
        data = _json_object(header.get("data") or {})
        size = _length(header, "data_length", limits.data_bytes)
        if size:
            data |= _json_object(_json(await reader.readexactly(size)))
        size = _length(header, "payload_length", limits.chunk_bytes)
        payload = await reader.readexactly(size) if size else None
    except asyncio.LimitOverrunError:
        limit = limits.line_bytes
        raise _invalid(f"the first line of an event may have at most {limit} bytes") from None
    except (asyncio.IncompleteReadError, OSError):
        return None
    return Event(header["type"], data, payload)


def _header(line: bytes) -> dict[str, Any]:
    header = _json_object(_json(line))
    kind = header.get("type")
    if not isinstance(kind, str) or not 0 < len(kind) <= _TYPE_CHARACTERS:
        raise _invalid("an event needs a `type`, which must be a short string")
    return header


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _invalid(
            "this is a Wyoming port: each event must begin with a line of JSON"
        ) from None


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid("an event and its `data` must be JSON objects")
    return value


def _length(header: dict[str, Any], name: str, limit: int) -> int:
    size = header.get(name) or 0
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= limit:
        raise _invalid(f"`{name}` must be a number of bytes, at most {limit}")
    return size


def _invalid(message: str) -> ServiceError:
    return ServiceError(message, code="invalid_event")

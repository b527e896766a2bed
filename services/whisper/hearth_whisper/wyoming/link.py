"""Events of the Wyoming protocol on a socket whose other end may be anybody.

The library's own reader believes every length that it is told; this one does not.
"""

import asyncio
import contextlib
import json
from typing import Any

from wyoming.event import Event, Eventable, async_write_event

from hearth_serving.errors import ServiceError
from hearth_whisper.wyoming.limits import SatelliteLimits

_TYPE_CHARACTERS = 64
_LINGER_S, _LUMP = 1.0, 64 * 1024


class Left(Exception):
    """The satellite hung up, or reads no longer."""


class Link:
    """One connection: events in one after another, events out."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: SatelliteLimits
    ) -> None:
        """Take both directions; `reader` must hold a whole first line, so `limit=line_bytes`."""
        self._reader, self._writer, self._limits = reader, writer, limits
        self._next: asyncio.Task[Event | None] | None = None

    def ahead(self) -> asyncio.Task[Event | None]:
        """Return the reading of the next event, begun once: None is the end."""
        if self._next is None:
            self._next = asyncio.create_task(_read(self._reader, self._limits))
        return self._next

    async def hear(self, within_s: float) -> Event | None:
        """Return the next event, None when the satellite has hung up.

        Raises:
            ServiceError: it is no event, too long, or not whole within `within_s`.
        """
        reading = self.ahead()
        await asyncio.wait({reading}, timeout=max(0.0, within_s))
        if not reading.done():
            said = f"no complete event within {within_s:g} s"
            raise ServiceError(said, status=408, code="request_timeout")
        self._next = None
        return reading.result()

    async def tell(self, *said: Eventable) -> None:
        """Send events; raises Left when nobody takes them."""
        try:
            async with asyncio.timeout(self._limits.write_s):
                for one in said:
                    await async_write_event(one.event(), self._writer)
        except (TimeoutError, OSError):
            raise Left from None

    async def close(self) -> None:
        """Hang up; what was sent still arrives where somebody reads it soon."""
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
                # Closed with something unread, TCP takes back what was said last: our reason.
                while await self._reader.read(_LUMP):
                    pass


async def _read(reader: asyncio.StreamReader, limits: SatelliteLimits) -> Event | None:
    try:
        head = _head_of(await reader.readuntil(b"\n"))
        data = _part(head.get("data") or {})
        size = _length(head, "data_length", limits.data_bytes)
        if size:
            data |= _part(_json(await reader.readexactly(size)))
        size = _length(head, "payload_length", limits.chunk_bytes)
        payload = await reader.readexactly(size) if size else None
    except asyncio.LimitOverrunError:
        most = limits.line_bytes
        raise _rubbish(f"the first line of an event may have at most {most} bytes") from None
    except (asyncio.IncompleteReadError, OSError):
        return None
    return Event(head["type"], data, payload)


def _head_of(line: bytes) -> dict[str, Any]:
    head = _part(_json(line))
    kind = head.get("type")
    if not isinstance(kind, str) or not 0 < len(kind) <= _TYPE_CHARACTERS:
        raise _rubbish("an event needs a `type`, which must be a short string")
    return head


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _rubbish(
            "this is a Wyoming port: each event must begin with a line of JSON"
        ) from None


def _part(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _rubbish("an event and its `data` must be JSON objects")
    return found


def _length(head: dict[str, Any], name: str, most: int) -> int:
    size = head.get(name) or 0
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= most:
        raise _rubbish(f"`{name}` must be a number of bytes, at most {most}")
    return size


def _rubbish(said: str) -> ServiceError:
    return ServiceError(said, code="invalid_event")

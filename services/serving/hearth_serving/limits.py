"""What one request may cost in bytes and seconds, and bodies that are read within these limits."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from hearth_serving.errors import ServiceError

# A client reads the error only after it has sent all; one that never ends is cut off.
_DRAIN_FACTOR = 2
_DRAIN_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of requests and connections, each with its unit; a service adds its own."""

    body_bytes: int = 1024 * 1024
    headers_s: float = 30
    """How long a client may take to send the first line and the headers of a request."""
    body_s: float = 30
    """How long a client may take to send the whole body."""
    min_bytes_per_s: float = math.inf
    """After `body_s`, how fast the body must have arrived on average."""
    write_s: float = 60
    """How long a write may wait for a client that does not read."""
    timeout_s: float = 3600
    """How long one request may take altogether; a player reads no faster than it plays."""
    connections: int = 256
    """How many sockets are served at once; more get 503, and beyond twice as many are closed."""
    live: int = 24
    """How many WebSockets are open at once."""
    message_bytes: int = 64 * 1024
    """The longest message of a WebSocket."""
    idle_s: float = 120
    """How long a WebSocket may be idle while no work is done for it."""
    stop_s: int = 3
    """How long running requests may take after SIGTERM."""


class BoundedBody:
    """A request's body within its limits; what is left of it can be drained after an error.

    Iterating raises ServiceError when the body is too large or too slow, or the client leaves.
    """

    def __init__(
        self, request: Request, limits: Limits, reserve: Callable[[int], None] = lambda _: None
    ) -> None:
        self._chunks = request.stream()
        self._limits, self._reserve = limits, reserve
        self._started_s = asyncio.get_running_loop().time()
        self._received_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield each chunk after its bytes are reserved."""
        while chunk := await self._next():
            if self._received_bytes > self._limits.body_bytes:
                message = f"a request has at most {self._limits.body_bytes / 1024**2:g} MiB"
                raise ServiceError(message, status=413, code="request_too_large")
            self._reserve(len(chunk))
            yield chunk

    async def drain(self) -> None:
        """Read the rest and drop it, up to a bound."""
        most_bytes = max(_DRAIN_BYTES, _DRAIN_FACTOR * self._limits.body_bytes)
        with contextlib.suppress(ServiceError):
            while self._received_bytes <= most_bytes and await self._next():
                pass

    async def _next(self) -> bytes:
        """Return the next chunk, empty at the end."""
        allowed_s = self._limits.body_s + self._received_bytes / self._limits.min_bytes_per_s
        try:
            async with asyncio.timeout_at(self._started_s + allowed_s):
                async for chunk in self._chunks:
                    if chunk:
                        self._received_bytes += len(chunk)
                        return chunk
        except TimeoutError:
            message = "the request did not arrive in time: its sender is too slow or has stopped"
            raise ServiceError(message, status=408, code="request_timeout") from None
        except ClientDisconnect:
            raise ServiceError("the request was cut off", code="cut_off") from None
        return b""


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read a whole body; raises ServiceError as `BoundedBody` does."""
    body, content = BoundedBody(request, limits), bytearray()
    try:
        async for chunk in body:
            content += chunk
    except ServiceError:
        await body.drain()
        raise
    return bytes(content)

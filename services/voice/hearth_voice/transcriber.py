"""The live socket of the speech recogniser: sound in, events out; opened when sound arrives."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from hearth_serving.errors import ServiceError, log_unexpected
from hearth_voice.settings import SAMPLE_RATE

_OPEN_S = 2.0
_AGAIN_S = 0.5
"""How long after a failure the next attempt comes; sound is dropped meanwhile."""
_PING_S = 2.0
_IDLE = 1001
"""The close code after two minutes without sound, as from a muted microphone."""


@dataclass(frozen=True, slots=True)
class Options:
    """How speech is divided and recognised."""

    end_of_speech_ms: int
    language: str | None = None
    prompt: str = ""

    def as_message(self) -> str:
        """Return the first message of a stream."""
        start = {
            "type": "start",
            "sample_rate": SAMPLE_RATE,
            "end_of_speech_ms": self.end_of_speech_ms,
            "partials": False,
            "early": True,
            "prompt": self.prompt,
        }
        return json.dumps(start | ({"language": self.language} if self.language else {}))


class Transcriber:
    """One call's stream.

    `on_event` gets its events in order, `on_lost` the reason why it broke off, and `on_closed`
    the reason why none can be opened.
    """

    def __init__(
        self,
        url: str,
        on_event: Callable[[dict[str, Any]], Awaitable[None]],
        on_lost: Callable[[ServiceError], Awaitable[None]],
        on_closed: Callable[[ServiceError], Awaitable[None]],
    ) -> None:
        self._url = url.replace("http", "ws", 1) + "/v1/audio/transcriptions/stream"
        self._on_event, self._on_lost, self._on_closed = on_event, on_lost, on_closed
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self.start = 0
        """The sample of the call at which this stream starts."""

    @property
    def is_open(self) -> bool:
        """Whether a stream is open."""
        return self._socket is not None

    async def hear(self, sound: bytes, position: int, options: Options) -> None:
        """Send sound that starts at this sample of the call; open a stream if there is none."""
        if self._socket is None and not await self._open(position, options):
            return
        await self._send(sound)

    async def flush(self, *, in_pause: bool = False) -> None:
        """End the open utterance at once, or only if its speaker pauses."""
        await self._send(json.dumps({"type": "flush", "in_pause": in_pause}))

    async def close(self) -> None:
        """End the stream; the next sound opens another one."""
        socket, self._socket = self._socket, None
        reader, self._reader = self._reader, None
        if reader and reader is not asyncio.current_task():
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        if socket:
            # The closing handshake is of no interest to anybody who waits.
            socket.transport.abort()

    async def _open(self, position: int, options: Options) -> bool:
        if time.monotonic() < self._not_before:
            return False
        try:
            async with asyncio.timeout(_OPEN_S):
                socket = await connect(
                    self._url,
                    proxy=None,
                    compression=None,
                    max_size=None,
                    ping_interval=_PING_S,
                    ping_timeout=_PING_S,
                )
                await socket.send(options.as_message())
        except InvalidStatus as error:
            await self._not_opened(_refused(error))
            return False
        except (OSError, TimeoutError, WebSocketException) as error:
            await self._not_opened(_unavailable(type(error).__name__))
            return False
        self._socket, self.start = socket, position
        self._reader = asyncio.create_task(self._read(socket))
        return True

    async def _send(self, message: bytes | str) -> None:
        if self._socket:
            # Its reader reports why it is closed.
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(message)

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for message in socket:
                await self._on_event(json.loads(message))
            code = socket.close_code
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else None
        except ConnectionError:
            # The client is gone; its call ends by itself.
            return
        except Exception as error:
            code = None
            log_unexpected(error)
            socket.transport.abort()
        if self._socket is socket:
            self._socket = None
            if code != _IDLE:
                await self._on_lost(_unavailable("it closed the connection"))

    async def _not_opened(self, error: ServiceError) -> None:
        self._not_before = time.monotonic() + _AGAIN_S
        await self._on_closed(error)


def _unavailable(reason: str) -> ServiceError:
    message = f"speech recognition is not reachable ({reason}); it is tried again"
    return ServiceError(message, status=503, code="transcription_unavailable")


def _refused(error: InvalidStatus) -> ServiceError:
    try:
        text = str(json.loads(error.response.body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {error.response.status_code}"
    message = f"speech recognition refused the call: {text}"[:300]
    return ServiceError(message, status=503, code="transcription_unavailable")

"""The speech server's WebSocket: text in while it is written, sound out clause by clause."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from hearth_serving.errors import ServiceError
from hearth_voice.conversation import Piece

_OPEN_S, _SILENT_S = 5.0, 60.0


class SpeechStream:
    """One speech; `write` and `end` beside `pieces`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def write(self, text: str) -> None:
        """Speak this text as soon as it makes a clause."""
        await self._socket.send(json.dumps({"type": "text", "text": text}))

    async def end(self) -> None:
        """Speak the rest."""
        await self._socket.send('{"type": "end"}')

    async def pieces(self) -> AsyncIterator[Piece | bytes]:
        """Yield each piece before its sound, until the speech is over; raises ServiceError."""
        while True:
            async with asyncio.timeout(_SILENT_S):
                message = await self._socket.recv()
            if isinstance(message, bytes):
                yield message
                continue
            event: dict[str, Any] = json.loads(message)
            if event["type"] == "piece":
                yield Piece(event["text"], int(event["samples"]))
            elif event["type"] == "done":
                return
            elif event["type"] == "error" and event["error"].get("code") != "empty_input":
                text = str(event["error"].get("message"))[:300]
                raise ServiceError(f"the voice failed: {text}", status=502, code="voice_failed")


class SpeechServer:
    """Opens speeches."""

    def __init__(self, url: str) -> None:
        """Take the server's address."""
        self._url = url.replace("http", "ws", 1)

    @asynccontextmanager
    async def speech(self, voice: str, speed: float) -> AsyncIterator[SpeechStream]:
        """Open a speech; leaving early ends the server's work. Raises ServiceError."""
        query = urlencode({"voice": voice, "response_format": "pcm", "speed": speed})
        try:
            async with connect(
                f"{self._url}/v1/audio/stream?{query}",
                proxy=None,
                open_timeout=_OPEN_S,
                close_timeout=1,
                max_size=None,
                compression=None,
            ) as socket:
                yield SpeechStream(socket)
        except InvalidStatus as error:
            raise _refused(error) from None
        except TimeoutError:
            raise ServiceError(
                "the voice did not answer", status=504, code="voice_failed"
            ) from None
        except (OSError, WebSocketException) as error:
            message = f"the voice is not reachable ({type(error).__name__})"
            raise ServiceError(message, status=503, code="voice_unavailable") from None


def _refused(error: InvalidStatus) -> ServiceError:
    try:
        text = str(json.loads(error.response.body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {error.response.status_code}"
    return ServiceError(f"the voice refused: {text}"[:300], status=502, code="voice_failed")

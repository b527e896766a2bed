"""The messages of a client on the WebSocket, and the queue in which they wait."""

import asyncio
from collections import deque
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from hearth_serving.errors import ServiceError, quoted
from hearth_whisper.audio.pcm import MAX_RATE, MIN_RATE
from hearth_whisper.languages import read_language
from hearth_whisper.recognition import SAMPLE_RATE, Options

_USAGE = 'send audio as binary messages, or {"type": "start"}, {"type": "flush"}, {"type": "end"}'
# Half a minute of audio: live speech never fills it, and a file waits for the recognition.
_MAX_QUEUE_BYTES = 1024 * 1024
_MESSAGE_OVERHEAD_BYTES = 128


class StartMessage(BaseModel):
    """The parameters of a stream; sent at most once, before any audio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["start"] = "start"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = SAMPLE_RATE
    language: str | None = None
    prompt: Annotated[str, Field(max_length=4000)] = ""
    end_of_speech_ms: Annotated[int, Field(ge=100, le=5000)] = 500
    """The silence that ends an utterance."""
    partials: bool = True
    words: bool = False
    """Send each word's times in the final, which makes it a little later."""
    early: bool = False
    """Send the text that was recognised in a pause, before the utterance is known to be over."""

    @field_validator("language")
    @classmethod
    def _language_code(cls, language: str | None) -> str | None:
        return read_language(language) if language else None

    def options(self, *, partial: bool = False) -> Options:
        """Return the options of the recogniser."""
        return Options(
            language=self.language,
            prompt=self.prompt,
            word_timestamps=self.words and not partial,
            vad=False,
            greedy=partial,
        )


class ControlMessage(BaseModel):
    """`flush` requests the text until now; `end` also ends the stream."""

    type: Literal["flush", "end"]
    in_pause: bool = False
    """Flush only in a pause: speech that has just resumed goes on."""


Message = bytes | StartMessage | ControlMessage
"""Audio, or a text message."""

_TEXT_MESSAGE: TypeAdapter[StartMessage | ControlMessage] = TypeAdapter(
    Annotated[StartMessage | ControlMessage, Field(discriminator="type")]
)


def read_message(text: str) -> StartMessage | ControlMessage:
    """Parse a text message; raises ServiceError for anything else."""
    try:
        return _TEXT_MESSAGE.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise ServiceError("the message is not valid JSON", code="invalid_json") from None
        if len(first["loc"]) < 2:
            raise ServiceError(_USAGE, code="invalid_message") from None
        name = str(first["loc"][1])
        reason = first["msg"].removeprefix("Value error, ")
        message = f"start: {quoted(name)}: {reason}"
        raise ServiceError(message, param=name[:40], code="invalid_message") from None


class MessageQueue:
    """The messages that were received but not processed, bounded so that a fast sender waits."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()

    async def put(self, message: Message) -> None:
        """Append a message when there is room."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._bytes < _MAX_QUEUE_BYTES)
            self._messages.append(message)
            self._bytes += _size(message)
            self._changed.notify_all()

    async def get(self) -> Message:
        """Wait for the next message and return it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._messages)
            message = self._messages.popleft()
            self._bytes -= _size(message)
            self._changed.notify_all()
            return message


def _size(message: Message) -> int:
    return _MESSAGE_OVERHEAD_BYTES + (len(message) if isinstance(message, bytes) else 0)

"""OpenAI's events of speech: `speech.audio.delta` and `speech.audio.done`."""

import base64
import json
from typing import Any

from hearth_serving.errors import ServiceError, error_body

MEDIA_TYPE = "text/event-stream"


def delta(audio: bytes, text: str | None = None) -> bytes:
    """Return some sound; the first of each piece says what it speaks, which is ours alone."""
    said = {} if text is None else {"text": text}
    return _event({"type": "speech.audio.delta", "audio": base64.b64encode(audio).decode(), **said})


def done() -> bytes:
    """Return the last event of a whole answer."""
    return _event({"type": "speech.audio.done"})


def failed(error: ServiceError) -> bytes:
    """Return the last event of an answer that broke off."""
    return _event({"type": "error", **error_body(error)})


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"

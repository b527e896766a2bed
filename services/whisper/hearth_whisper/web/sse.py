"""OpenAI's events of a text: `transcript.text.delta` and `transcript.text.done`."""

import json
from typing import Any

from hearth_serving.answers import error_body
from hearth_serving.errors import ServiceError

MEDIA_TYPE = "text/event-stream"


def delta(text: str) -> bytes:
    """Return what was written next; all deltas together are the text."""
    return _event({"type": "transcript.text.delta", "delta": text})


def done(text: str) -> bytes:
    """Return the last event, with the whole text."""
    return _event({"type": "transcript.text.done", "text": text})


def failed(error: ServiceError) -> bytes:
    """Return the last event of an answer that broke off."""
    return _event({"type": "error", **error_body(error)})


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"

"""OpenAI's events of a text: `transcript.text.delta`, `.segment` and `.done`."""

import json
from typing import Any

from hearth_serving.errors import ServiceError, error_body
from hearth_whisper.recognising import Segment

MEDIA_TYPE = "text/event-stream"


def delta(text: str) -> bytes:
    """Return what was written next; all deltas together are the text."""
    return _event({"type": "transcript.text.delta", "delta": text})


def segment(number: int, said: Segment) -> bytes:
    """Return when something was said; there is no speaker, for voices are not told apart."""
    times = {"start": round(said.start_s, 3), "end": round(said.end_s, 3)}
    event = {"type": "transcript.text.segment", "id": str(number), **times, "text": said.text}
    return _event(event)


def done(text: str) -> bytes:
    """Return the last event, with the whole text."""
    return _event({"type": "transcript.text.done", "text": text})


def failed(error: ServiceError) -> bytes:
    """Return the last event of an answer that broke off."""
    return _event({"type": "error", **error_body(error)})


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"

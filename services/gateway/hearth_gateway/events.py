"""Server-sent events: split from a byte stream, parsed, and reduced to known fields.

A program that shows a chunk may trust its other fields as if its own server had written them. To
Open WebUI an `event` is a dialogue or a script for the page, and a `selected_model_id` names who
answers the rest of the turn. A server outside the house must send neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_SCHEMA = {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "error"}
_SCHEMA |= {"service_tier", "obfuscation", "moderation"}
# llama.cpp's measurements, a reseller's server, the findings of a model that searches, ...
_EXTRAS = {"timings", "provider", "provider_specific_fields", "citations", "search_results"}
_EXTRAS |= {"prompt_filter_results", "x_groq"}
_KNOWN = frozenset(_SCHEMA | _EXTRAS)
# Ends of the types of events that hold something generated, for responses and for messages.
_TOKENS = (".delta", ".completed", ".incomplete", "content_block_delta", "message_delta")


class EventReader:
    """Splits a byte stream into complete server-sent events; keeps the incomplete rest."""

    def __init__(self, max_bytes: int | None = None) -> None:
        """Start empty; with `max_bytes`, longer events are not kept, and their data is None."""
        self._held = b""
        self._max_bytes = max_bytes

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the data of each event that `piece` completes; `[DONE]` and comments as None."""
        for raw, data in self.cut(piece):
            if raw.endswith(b"\n\n"):
                yield data

    def cut(self, piece: bytes) -> Iterator[tuple[bytes, Any]]:
        r"""Yield each event that `piece` completes, unchanged, with its data.

        The start of an event longer than `max_bytes` is yielded at once, without data.
        """
        # After joining: a piece may end between the two bytes of a line's end.
        self._held = (self._held + piece).replace(b"\r\n", b"\n")
        while b"\n\n" in self._held:
            event, self._held = self._held.split(b"\n\n", 1)
            yield event + b"\n\n", _data(event)
        if self._max_bytes is not None and len(self._held) > self._max_bytes:
            # Enough is kept to find its end.
            kept = len(b"\n\r\n")
            long, self._held = self._held[:-kept], self._held[-kept:]
            yield long, None

    def rest(self) -> bytes:
        """Return the bytes that never became an event."""
        held, self._held = self._held, b""
        return held


def _data(event: bytes) -> Any:
    lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
    try:
        return json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None


def event_bytes(data: dict[str, Any], *, named: bool = False) -> bytes:
    """Return one server-sent event, `named` by its type where the interface does that."""
    name = b"event: " + str(data["type"]).encode() + b"\n" if named else b""
    return name + b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def has_token(event: Any) -> bool:
    """Return whether an event holds something that the model generated, not only a role."""
    if not isinstance(event, dict):
        return False
    kind = str(event.get("type", ""))
    if kind == "content_block_start":
        block = event.get("content_block")
        return isinstance(block, dict) and block.get("type") == "tool_use"
    if kind.endswith(
        (".delta", ".completed", ".incomplete", "content_block_delta", "message_delta")
    ):
        return True
    choices = event.get("choices")
    return isinstance(choices, list) and any(_choice_has_token(choice) for choice in choices)


def _choice_has_token(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    if choice.get("finish_reason") or choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(v for key, v in delta.items() if key != "role")


def error_in(event: Any) -> dict[str, Any] | None:
    """Return the error that an event of a running stream reports, or None.

    OpenAI puts it inside, as `error`. Its Responses interface writes an event of the type `error`
    with the fields at the top, or puts the error into the response that failed.
    """
    if not isinstance(event, dict):
        return None
    kind, found = event.get("type"), event.get("error")
    if kind == "response.failed":
        found = (event.get("response") or {}).get("error")
    elif kind == "error" and not found:
        found = {name: event.get(name) for name in ("message", "code", "param")}
    return found if isinstance(found, dict) else ({"message": str(found)} if found else None)


def known_fields(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a chunk, or of a whole answer, that are forwarded."""
    return {name: value for name, value in event.items() if name in _KNOWN}


def filtered(raw: bytes, event: Any) -> bytes:
    """Return one event of a stream with its known fields; comments and `[DONE]` stay.

    Some clients parse each line separately, so an event on several lines becomes one line.
    """
    if isinstance(event, dict):
        unchanged = event.keys() <= _KNOWN and b"\n" not in raw.removesuffix(b"\n\n")
        return raw if unchanged else event_bytes(known_fields(event))
    data = [line[5:].strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    return raw if all(each == b"[DONE]" for each in data) else b""

"""The shapes of OpenAI's HTTP interface that the gateway itself reads and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# What an alternative may still answer; a bad request stays bad with every member.
FINAL_STATUS = frozenset({400, 413, 415, 422})
_TYPES = {401: "authentication_error", 403: "permission_error", 504: "timeout_error"}


def error(status: int, message: str, code: str) -> dict[str, Any]:
    """Return OpenAI's error body for `status`."""
    fallback = "invalid_request_error" if status < 500 else "server_error"
    kind = _TYPES.get(status, fallback)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Events:
    """Cuts a byte stream into whole server-sent events; keeps what is still incomplete."""

    def __init__(self, most_bytes: int | None = None) -> None:
        """Start with nothing held; with `most_bytes`, longer events come as None, unheld."""
        self._held = b""
        self._most = most_bytes

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the data of each event that `piece` completes; `[DONE]` and comments as None."""
        for raw, data in self.cut(piece):
            if raw.endswith(b"\n\n"):
                yield data

    def cut(self, piece: bytes) -> Iterator[tuple[bytes, Any]]:
        r"""Yield each event that `piece` completes as it stands, with its data.

        Of one longer than `most_bytes` the beginning comes at once and without data.
        """
        # After joining: a piece may end between the two bytes of a line's end.
        self._held = (self._held + piece).replace(b"\r\n", b"\n")
        while b"\n\n" in self._held:
            event, self._held = self._held.split(b"\n\n", 1)
            yield event + b"\n\n", _data(event)
        if self._most is not None and len(self._held) > self._most:
            # Enough is kept to see its end come.
            kept = len(b"\n\r\n")
            long, self._held = self._held[:-kept], self._held[-kept:]
            yield long, None

    def rest(self) -> bytes:
        """Return what never became an event."""
        held, self._held = self._held, b""
        return held


def _data(event: bytes) -> Any:
    lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
    try:
        return json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None


def carries_token(event: Any) -> bool:
    """Say whether an event holds something that the model made, not only a role or a header."""
    if not isinstance(event, dict):
        return False
    if str(event.get("type", "")).endswith((".delta", ".completed", ".incomplete")):
        return True  # the Responses interface names its events
    return any(_choice_has_token(choice) for choice in event.get("choices") or [])


def _choice_has_token(choice: Any) -> bool:
    if choice.get("finish_reason") or choice.get("text"):
        return True
    delta = choice.get("delta") or {}
    return any(value for key, value in delta.items() if key != "role")


def stream_error(event: Any) -> dict[str, Any] | None:
    """Return the error that an event of a running stream reports, if it does.

    OpenAI has it inside, as `error`; its Responses interface writes an event of the type `error`
    around nothing, or puts it into the response that failed.
    """
    if not isinstance(event, dict):
        return None
    kind, found = event.get("type"), event.get("error")
    if kind == "response.failed":
        found = (event.get("response") or {}).get("error")
    elif kind == "error" and not found:
        found = {name: event.get(name) for name in ("message", "code", "param")}
    return found if isinstance(found, dict) else ({"message": str(found)} if found else None)


def status_of(problem: dict[str, Any]) -> int:
    """Return the status that an error names, 502 when it names none."""
    code = str(problem.get("code", ""))
    return int(code) if code.isdigit() and 400 <= int(code) < 600 else 502


def event_bytes(data: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def error_of(body: bytes, status: int) -> dict[str, Any]:
    """Return what a member's error says, in OpenAI's shape."""
    try:
        content = json.loads(body)
        if isinstance(content["error"], dict):
            return shaped(content["error"], status)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return error(status or 502, "the model's server gave no usable answer", "bad_gateway")


def shaped(problem: dict[str, Any], status: int) -> dict[str, Any]:
    """Return the member's own words in OpenAI's shape; LiteLLM leaves parts of it empty."""
    known = error(status, "the model's server gave no reason", str(status))["error"]
    return {"error": known | {key: value for key, value in problem.items() if value is not None}}

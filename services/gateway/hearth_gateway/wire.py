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

    def __init__(self) -> None:
        """Start with nothing held."""
        self._held = b""

    def feed(self, piece: bytes) -> Iterator[Any]:
        r"""Yield the data of each event that `piece` completes; `[DONE]` and comments as None."""
        self._held += piece.replace(b"\r\n", b"\n")
        while b"\n\n" in self._held:
            event, self._held = self._held.split(b"\n\n", 1)
            yield _data(event)


def _data(event: bytes) -> Any:
    lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
    try:
        return json.loads(b"\n".join(lines))
    except ValueError:
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
    """Return the error that an event of a running stream reports, if it does."""
    if not isinstance(event, dict):
        return None
    if event.get("type") == "response.failed":
        found = (event.get("response") or {}).get("error")
    else:
        found = event.get("error")
    return found if isinstance(found, dict) else ({"message": str(found)} if found else None)


def event_bytes(data: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


class Assembly:
    """Makes the one answer that a caller without streaming expects out of a stream's chunks."""

    def __init__(self) -> None:
        """Start with an empty answer."""
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        """Take one chunk; later scalars win, text grows."""
        for key, value in chunk.items():
            if key != "choices" and (value is not None or key not in self._head):
                self._head[key] = value
        for choice in chunk.get("choices") or []:
            _merge_choice(self._choices.setdefault(choice.get("index", 0), {}), choice)

    @property
    def finished(self) -> bool:
        """Say whether every choice was told why it ended."""
        return bool(self._choices) and all(
            choice.get("finish_reason") for choice in self._choices.values()
        )

    def answer(self) -> dict[str, Any]:
        """Return the whole answer in the shape of the interface that was called."""
        choices = [self._choices[index] for index in sorted(self._choices)]
        answer = {**self._head, "choices": choices}
        for choice in choices:
            choice.setdefault("finish_reason", None)
            choice.setdefault("logprobs", None)
            message = choice.get("message")
            if message is not None:
                message.setdefault("role", "assistant")
                message.setdefault("content", None)
        if any("message" in choice for choice in choices):
            answer["object"] = "chat.completion"
        return answer


def _merge_choice(whole: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        if key == "delta":
            _merge(whole.setdefault("message", {}), value or {})
        elif key == "logprobs":
            _merge_logprobs(whole, value)
        elif key == "text":
            whole["text"] = whole.get("text", "") + (value or "")
        elif value is not None or key not in whole:
            whole[key] = value


def _merge_logprobs(whole: dict[str, Any], value: Any) -> None:
    if isinstance(value, dict):
        held = whole.get("logprobs") or {}
        whole["logprobs"] = {
            key: (held.get(key) or []) + item if isinstance(item, list) else item
            for key, item in {**held, **value}.items()
            if key in value or key in held
        }


def _merge(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Merge one delta: text grows, numbered lists merge by their index, the rest is set."""
    for key, value in part.items():
        held = whole.get(key)
        if isinstance(value, str) and isinstance(held, str) and key not in {"role", "id", "type"}:
            whole[key] = held + value
        elif isinstance(value, list):
            whole[key] = _merge_list(held or [], value)
        elif isinstance(value, dict) and isinstance(held, dict):
            _merge(held, value)
        elif value is not None or key not in whole:
            whole[key] = value


def _merge_list(held: list[Any], new: list[Any]) -> list[Any]:
    for item in new:
        number = item.get("index") if isinstance(item, dict) else None
        twin = next((old for old in held if number is not None and old["index"] == number), None)
        if twin is None:
            held.append(dict(item) if isinstance(item, dict) else item)
        else:
            _merge(twin, item)
    return held

"""Assemble one complete answer from the events of a stream."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Protocol

from hearth_gateway.interfaces import MESSAGES, RESPONSES


class Assembly(Protocol):
    """Assembles the answer for a client that did not request a stream."""

    def add(self, event: dict[str, Any]) -> None:
        """Take one event."""

    @property
    def finished(self) -> bool:
        """Return whether the member ended its answer."""

    def answer(self) -> dict[str, Any]:
        """Return the whole answer in the shape of the interface that was called."""


def assembly_for(path: str) -> Assembly:
    """Return the assembly for the interface at `path`."""
    if path == RESPONSES:
        return WholeResponse()
    return WholeMessage() if path == MESSAGES else Completion()


class WholeResponse:
    """The Responses interface sends the whole answer again as its last event."""

    def __init__(self) -> None:
        """Start without an answer."""
        self._answer: dict[str, Any] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Take one event; only the last ones matter."""
        if event.get("type") in {"response.completed", "response.incomplete"}:
            self._answer = event.get("response") or {}

    @property
    def finished(self) -> bool:
        """Return whether the last event arrived."""
        return bool(self._answer)

    def answer(self) -> dict[str, Any]:
        """Return the whole answer."""
        return self._answer


class WholeMessage:
    """The messages interface sends blocks, each with pieces of its text or of a tool's input."""

    def __init__(self) -> None:
        """Start without an answer."""
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._ended = False

    def add(self, event: dict[str, Any]) -> None:
        """Take one event."""
        kind, delta = event.get("type"), event.get("delta") or {}
        if kind == "message_start":
            self._message = event.get("message") or {}
        elif kind == "content_block_start":
            self._blocks[event["index"]] = {**event["content_block"]}
        elif kind == "content_block_delta":
            _grow(self._blocks[event["index"]], delta)
        elif kind == "message_delta":
            usage = (self._message.get("usage") or {}) | (event.get("usage") or {})
            more = {k: v for k, v in event.items() if k not in ("type", "delta", "usage")}
            self._message |= delta | more | {"usage": usage}
        elif kind == "message_stop":
            self._ended = True

    @property
    def finished(self) -> bool:
        """Return whether the last event arrived."""
        return self._ended

    def answer(self) -> dict[str, Any]:
        """Return the whole message."""
        for block in self._blocks.values():
            if isinstance(block.get("input"), str):
                with suppress(ValueError):
                    block["input"] = json.loads(block["input"] or "{}")
        return {**self._message, "content": [self._blocks[at] for at in sorted(self._blocks)]}


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a piece of a text, a thought, its signature, or a tool's input as JSON text."""
    for key, value in delta.items():
        if key == "partial_json":
            held = block.get("input")
            block["input"] = (held if isinstance(held, str) else "") + value
        elif key != "type" and isinstance(value, str):
            block[key] = block.get(key, "") + value


class Completion:
    """The completions interfaces send pieces: text grows, the rest is set."""

    def __init__(self) -> None:
        """Start with an empty answer."""
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, event: dict[str, Any]) -> None:
        """Take one chunk; later scalars win, text grows."""
        for key, value in event.items():
            if key != "choices" and (value is not None or key not in self._head):
                self._head[key] = value
        for choice in event.get("choices") or []:
            _merge_choice(self._choices.setdefault(choice.get("index", 0), {}), choice)

    @property
    def finished(self) -> bool:
        """Return whether every choice has a reason for its end."""
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

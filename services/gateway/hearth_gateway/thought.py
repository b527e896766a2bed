"""Answers that end in thought alone: they are reported as that, never as empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hearth_gateway.interfaces import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from hearth_gateway.settings import ModelInfo

# Our own field in the last event of a stream, and in a whole answer.
FIELD = "hearth"
_OUT_OF_TOKENS = frozenset({"length", "max_tokens", "max_output_tokens", "incomplete"})
_OFF = {
    CHAT: 'turn thinking off with "reasoning_effort": "none"',
    COMPLETIONS: f"use {CHAT}, where thinking can be turned off",
    RESPONSES: 'turn thinking off with "reasoning": {"effort": "none"}',
    MESSAGES: 'turn thinking off with "thinking": {"type": "disabled"}',
}
_LIMIT = {RESPONSES: "max_output_tokens"}


class ThoughtWatch:
    """Watches the events of one answer for anything but thought."""

    def __init__(self, path: str, member: str, model: ModelInfo, shows_lines: bool = False) -> None:
        """Watch the answer of `member`, a `model`, for a client that `shows_lines`."""
        self.shows_lines = shows_lines
        self._path, self._member, self._always = path, member, model.always_thinks
        # Ollama thinks there as well, and sends empty pieces meanwhile.
        self._thought = path == COMPLETIONS and "thinking" in model.capabilities
        self._answered = False
        self.message = ""
        """What to tell the caller, once the answer has ended in thought alone."""

    def read(self, event: Any) -> dict[str, Any] | None:
        """Return the event with a report if the answer ends here in thought alone, else None."""
        if not isinstance(event, dict):
            return None
        for thought, part in _parts(self._path, event):
            self._thought |= thought and bool(part)
            self._answered |= not thought and bool(part)
        end = _end(self._path, event)
        if not end or self._answered or not self._thought:
            return None
        self.message = self._report(end)
        report = {FIELD: {"code": "only_thought", "message": self.message}}
        if self._path == RESPONSES:
            return event | {"response": event["response"] | report}
        return event | report

    def _report(self, end: str) -> str:
        off = f", or {_OFF[self._path]}"
        if self._always:
            off = ", or use a model whose thinking can be turned off"
        if end in _OUT_OF_TOKENS:
            limit = _LIMIT.get(self._path, "max_tokens")
            text = f"{self._member} used all its tokens for thought, and none for an answer"
            return f"{text}; allow more with {limit}{off}"
        return f"{self._member} ended after its thought, without an answer; ask again{off}"


def _parts(path: str, event: dict[str, Any]) -> Iterator[tuple[bool, Any]]:
    """Yield what an event adds, and whether that is thought."""
    if path == RESPONSES:
        response = event.get("response") if _end(path, event) else None
        for item in (response or {}).get("output") or []:
            yield (
                item.get("type") == "reasoning",
                item.get("type") != "message"
                or any(
                    part.get("text") or part.get("refusal") for part in item.get("content") or []
                ),
            )
    elif path == MESSAGES:
        block, delta = event.get("content_block") or {}, event.get("delta") or {}
        yield True, delta.get("thinking") or block.get("thinking")
        yield False, delta.get("text") or block.get("text") or block.get("type") == "tool_use"
    else:
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            yield True, delta.get("reasoning_content") or delta.get("reasoning")
            yield False, choice.get("text")
            for key in ("content", "tool_calls", "function_call", "refusal", "audio"):
                yield False, delta.get(key)


def _end(path: str, event: dict[str, Any]) -> str | None:
    """Return the reason of the end if the answer ends with this event."""
    if path == RESPONSES:
        kind = str(event.get("type"))
        ends = kind in ("response.completed", "response.incomplete") and event.get("response")
        return kind.removeprefix("response.") if ends else None
    if path == MESSAGES:
        return (event.get("delta") or {}).get("stop_reason")
    ends = [choice.get("finish_reason") for choice in event.get("choices") or []]
    return ends[0] if ends else None

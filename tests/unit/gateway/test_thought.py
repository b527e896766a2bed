"""An answer that ends in thought alone is told from any other, in each interface."""

from __future__ import annotations

from typing import Any

import pytest

from hearth_gateway.interfaces import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from hearth_gateway.settings import ModelInfo
from hearth_gateway.thought import ThoughtWatch


def delta(end: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": end}]}


def response(*output: dict[str, Any], end: str = "completed") -> dict[str, Any]:
    return {"type": f"response.{end}", "response": {"id": "r", "output": list(output)}}


THOUGHT = delta(reasoning_content="hm")
REASONING = {"type": "reasoning", "summary": []}
TEXT = {"type": "message", "content": [{"type": "output_text", "text": "4"}]}
EMPTY = {"type": "message", "content": [{"type": "output_text", "text": ""}]}
BLOCK = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "thinking_delta", "thinking": "hm"},
}
CALL = {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c"}}


def stopped(reason: str) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}}


def report(path: str, *events: Any, always: bool = False) -> str:
    """Return what is reported; it must be in the last event, and in no earlier one."""
    info = ModelInfo("m", "", False, True, False, frozenset({"thinking"}), always)
    watch = ThoughtWatch(path, "m", info)
    *before, last = [watch.read(event) for event in events]
    assert not any(before)
    if last is not None:
        held = last["response"] if path == RESPONSES else last
        assert held["hearth"] == {"code": "only_thought", "message": watch.message}
        assert last.items() >= {k: v for k, v in events[-1].items() if k != "response"}.items()
    return watch.message


@pytest.mark.parametrize(
    ("path", "events", "cure"),
    [
        (CHAT, [THOUGHT, delta("length")], "allow more with max_tokens, or turn thinking off"),
        (CHAT, [delta(reasoning="hm"), delta("stop", content="")], '"reasoning_effort": "none"'),
        (COMPLETIONS, [{"choices": [{"text": "", "finish_reason": "stop"}]}], "use /v1/chat"),
        (RESPONSES, [response(REASONING)], '"reasoning": {"effort": "none"}'),
        (RESPONSES, [response(REASONING, EMPTY, end="incomplete")], "max_output_tokens"),
        (MESSAGES, [BLOCK, stopped("max_tokens")], '"thinking": {"type": "disabled"}'),
    ],
)
def test_thought_alone_is_reported_with_the_cure(path: str, events: list[Any], cure: str) -> None:
    assert cure in report(path, *events)
    assert cure == "max_output_tokens" or cure not in report(path, *events, always=True)


@pytest.mark.parametrize(
    ("path", "events"),
    [
        (CHAT, [THOUGHT, delta(content="4"), delta("stop")]),
        (CHAT, [THOUGHT, delta(tool_calls=[{"index": 0}]), delta("tool_calls")]),
        (CHAT, [THOUGHT, None, "[DONE]"]),
        # Nothing at all is another failure.
        (CHAT, [delta("stop")]),
        (COMPLETIONS, [{"choices": [{"text": "4", "finish_reason": "stop"}]}]),
        (RESPONSES, [{"type": "response.reasoning.delta", "delta": "hm"}]),
        (RESPONSES, [response(REASONING, TEXT)]),
        (RESPONSES, [response(REASONING, {"type": "function_call"})]),
        (MESSAGES, [BLOCK, CALL, stopped("tool_use")]),
        (MESSAGES, [BLOCK, {"delta": {"text": "4"}}, stopped("end_turn")]),
    ],
)
def test_other_answers_are_passed_on_unchanged(path: str, events: list[Any]) -> None:
    assert report(path, *events) == ""

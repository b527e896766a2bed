"""Requests with tools go to members that call them, in every interface, for OpenAI's client too."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .chats import CHAT
from .test_thinking import MESSAGES, body, events_of
from .upstream import Upstream

TOOL = {"name": "weather", "description": "", "parameters": {"type": "object"}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    CHAT: [{"type": "function", "function": TOOL}],
    MESSAGES: [{"name": "weather", "input_schema": {"type": "object"}}],
    "/v1/responses": [{"type": "function", **TOOL}],
}


@pytest.mark.parametrize("path", TOOLS)
def test_a_request_with_tools_goes_to_a_member_that_calls_them(
    guest: httpx.Client, upstream: Upstream, path: str
) -> None:
    before = len(upstream.requests_for("good"))
    answer = guest.post(path, json=body(path, "helper", tools=TOOLS[path]))
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "tools")
    assert len(upstream.requests_for("good")) == before
    assert guest.post(path, json=body(path, "helper")).headers["x-hearth-model"] == "good"


@pytest.mark.parametrize("path", TOOLS)
def test_what_calls_no_tools_names_what_does(
    guest: httpx.Client, upstream: Upstream, path: str
) -> None:
    before = len(upstream.calls)
    answer = guest.post(path, json=body(path, "fast", tools=TOOLS[path]))
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["message"] == "fast has no model that calls tools; these do: helper"
    assert (answer.json().get("type") == "error") == (path == MESSAGES)
    assert len(upstream.calls) == before


def test_messages_carry_parallel_tool_calls(guest: httpx.Client) -> None:
    ask: dict[str, Any] = {"model": "helper", "tools": TOOLS[MESSAGES]}
    whole = guest.post(MESSAGES, json=body(MESSAGES, **ask)).json()
    assert whole["stop_reason"] == "tool_use"
    calls = [block for block in whole["content"] if block["type"] == "tool_use"]
    assert [(call["id"], call["name"], call["input"]) for call in calls] == [
        ("call_1", "weather", {"city": "Bonn"}),
        ("call_2", "weather", {"city": "Ulm"}),
    ]
    inputs: dict[int, str] = {}
    for event in events_of(guest, MESSAGES, **ask):
        if event["type"] == "content_block_delta":
            piece = event["delta"].get("partial_json", "")
            inputs[event["index"]] = inputs.get(event["index"], "") + piece
    assert [json.loads(text) for text in inputs.values() if text] == [
        {"city": "Bonn"},
        {"city": "Ulm"},
    ]

"""The line above an answer: which model gave it, for callers that show such lines."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .talk import CHAT, MESSAGES

ASKED = {"x-hearth-status": "open-webui"}


def stream(client: httpx.Client, model: str, headers: dict[str, str]) -> list[dict[str, Any]]:
    body = {"model": model, "messages": MESSAGES, "stream": True}
    with client.stream("POST", CHAT, json=body, headers=headers) as response:
        lines = [line[5:].strip() for line in response.iter_lines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def lines(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"]["data"]["description"] for event in events if "event" in event]


def test_the_model_is_named_right_behind_its_first_word(owner: httpx.Client) -> None:
    events = stream(owner, "fast", ASKED)
    said = {"type": "status", "data": {"description": "Answered by good", "done": True}}
    at = events.index({"event": said})
    assert [words(event) for event in events[: at + 2]] == ["", "one ", "", "two "]
    assert lines(events) == ["Answered by good"]


def test_who_did_not_answer_is_named_too(owner: httpx.Client) -> None:
    assert lines(stream(owner, "after-500-streamed", ASKED)) == [
        "Answered by good; 500-streamed gave no answer"
    ]


def words(event: dict[str, Any]) -> str:
    choices = event.get("choices") or []
    return "".join(choice["delta"].get("content") or "" for choice in choices)


@pytest.mark.parametrize("headers", [{}, {"x-hearth-status": "yes"}])
def test_nobody_else_gets_an_event_that_is_no_chunk(
    owner: httpx.Client, headers: dict[str, str]
) -> None:
    events = stream(owner, "fast", headers)
    assert events
    assert all(event["object"] == "chat.completion.chunk" for event in events)


def test_a_model_by_its_own_name_needs_no_line(owner: httpx.Client) -> None:
    assert lines(stream(owner, "good", ASKED)) == []


def test_an_answer_in_one_piece_is_as_ever(owner: httpx.Client) -> None:
    answer = owner.post(CHAT, json={"model": "fast", "messages": MESSAGES}, headers=ASKED)
    assert answer.json()["object"] == "chat.completion"

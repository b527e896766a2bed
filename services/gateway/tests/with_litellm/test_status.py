"""The status event with the model's name, for clients that show it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .chats import CHAT, MESSAGES

ASKED = {"x-hearth-status": "open-webui"}


def stream(client: httpx.Client, model: str, headers: dict[str, str]) -> list[dict[str, Any]]:
    body = {"model": model, "messages": MESSAGES, "stream": True}
    with client.stream("POST", CHAT, json=body, headers=headers) as response:
        lines = [line[5:].strip() for line in response.iter_lines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def lines(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"]["data"]["description"] for event in events if "event" in event]


def test_the_model_is_named_after_its_first_token(owner: httpx.Client) -> None:
    events = stream(owner, "fast", ASKED)
    status = {"type": "status", "data": {"description": "Answered by good", "done": True}}
    at = events.index({"event": status})
    assert [words(event) for event in events[: at + 2]] == ["", "one ", "", "two "]
    assert lines(events) == ["Answered by good"]


def test_a_failed_member_is_named(owner: httpx.Client) -> None:
    assert lines(stream(owner, "after-500-streamed", ASKED)) == [
        "Answered by good; 500-streamed gave no answer"
    ]


def words(event: dict[str, Any]) -> str:
    choices = event.get("choices") or []
    return "".join(choice["delta"].get("content") or "" for choice in choices)


@pytest.mark.parametrize("headers", [{}, {"x-hearth-status": "yes"}])
def test_other_clients_get_only_chunks(owner: httpx.Client, headers: dict[str, str]) -> None:
    events = stream(owner, "fast", headers)
    assert events
    assert all(event["object"] == "chat.completion.chunk" for event in events)


def test_a_model_by_its_own_name_has_no_status_event(owner: httpx.Client) -> None:
    assert lines(stream(owner, "good", ASKED)) == []


def test_a_plain_answer_has_no_status_event(owner: httpx.Client) -> None:
    answer = owner.post(CHAT, json={"model": "fast", "messages": MESSAGES}, headers=ASKED)
    assert answer.json()["object"] == "chat.completion"

"""Thinking as the alias or the request says, and answers that end in thought alone."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .upstream import Upstream

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ASK = [{"role": "user", "content": "hi"}]
EFFORT = "reasoning_effort"


def body(path: str, model: str, **more: Any) -> dict[str, Any]:
    if path == RESPONSES:
        return {"model": model, "input": "hi", **more}
    needed = {"max_tokens": 500} if path == MESSAGES else {}
    return {"model": model, "messages": ASK, **needed, **more}


def sent(client: httpx.Client, upstream: Upstream, member: str, path: str, **more: Any) -> Any:
    """Return the level of thinking that reached the member."""
    seen = len(upstream.requests_for(member))
    assert client.post(path, json=body(path, **more)).status_code == 200
    (request,) = upstream.requests_for(member)[seen:]
    assert not {"think", "thinking"} & request.keys()
    return request.get(EFFORT) or (request.get("reasoning") or {}).get("effort")


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_the_alias_says_how_much_its_members_think(
    owner: httpx.Client, upstream: Upstream, path: str
) -> None:
    assert sent(owner, upstream, "thinks", path, model="quick") == "none"
    assert sent(owner, upstream, "thinks", path, model="deep") == "high"
    assert sent(owner, upstream, "thinks", path, model="thinks") is None
    # This one cannot stop.
    assert sent(owner, upstream, "thinks-always", path, model="levels") == "low"


@pytest.mark.parametrize(
    ("path", "off", "on"),
    [
        (CHAT, {EFFORT: "none"}, {EFFORT: "medium"}),
        (CHAT, {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "medium"}}),
        (RESPONSES, {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "medium"}}),
        (
            MESSAGES,
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
    ],
)
def test_a_request_says_otherwise(
    owner: httpx.Client,
    upstream: Upstream,
    path: str,
    off: dict[str, Any],
    on: dict[str, Any],
) -> None:
    assert sent(owner, upstream, "thinks", path, model="deep", **off) == "none"
    assert sent(owner, upstream, "thinks", path, model="quick", **on) == "medium"
    assert sent(owner, upstream, "thinks-always", path, model="levels", **off) == "low"
    # Ollama would reject it for a model that does not think.
    assert sent(owner, upstream, "good", path, model="plain", **on) is None


def events_of(client: httpx.Client, path: str, **more: Any) -> list[dict[str, Any]]:
    with client.stream("POST", path, json=body(path, stream=True, **more)) as answer:
        assert answer.status_code == 200
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if "data:" in line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_thought_is_a_first_token_and_arrives_whole(owner: httpx.Client) -> None:
    events = events_of(owner, CHAT, model="thinks")
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert "".join(d.get("reasoning_content") or "" for d in deltas) == "one two three four"
    assert "".join(d.get("content") or "" for d in deltas) == "one two three four"
    assert not any("hearth" in event for event in events)
    message = owner.post(CHAT, json=body(CHAT, "thinks")).json()["choices"][0]["message"]
    assert message["reasoning_content"] == message["content"] == "one two three four"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_ends_with_the_first_thought(
    owner: httpx.Client, path: str, stream: bool
) -> None:
    # Its first word comes after the deadline for a first token.
    answer = owner.post(path, json=body(path, "pondering", stream=stream))
    assert answer.headers["x-hearth-model"] == "ponders"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_answer_of_thought_alone_is_reported_with_the_cure(
    owner: httpx.Client, path: str
) -> None:
    whole = owner.post(path, json=body(path, "broods")).json()
    (last,) = [event for event in events_of(owner, path, model="broods") if "hearth" in event]
    assert whole["hearth"] == last["hearth"]
    assert whole["hearth"]["code"] == "only_thought"
    for word in ("broods used all its tokens for thought", "allow more with max_tokens"):
        assert word in whole["hearth"]["message"]
    assert "hearth" not in owner.post(path, json=body(path, "thinks")).json()


def test_the_chat_shows_a_line_about_thought_alone(owner: httpx.Client) -> None:
    owner.headers["x-hearth-status"] = "open-webui"
    events = events_of(owner, CHAT, model="broods")
    (line,) = [event["event"]["data"]["description"] for event in events if "event" in event]
    assert line.startswith("broods used all its tokens for thought")


def test_messages_are_whole_streamed_and_not(owner: httpx.Client) -> None:
    whole = owner.post(MESSAGES, json=body(MESSAGES, "thinks")).json()
    assert (whole["type"], whole["role"], whole["stop_reason"]) == (
        "message",
        "assistant",
        "end_turn",
    )
    assert [(b["type"], b.get("thinking") or b.get("text")) for b in whole["content"]] == [
        ("thinking", "one two three four"),
        ("text", "one two three four"),
    ]
    events = events_of(owner, MESSAGES, model="thinks")
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")

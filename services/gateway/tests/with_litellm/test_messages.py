"""Anthropic's interface: the same keys, names, fallback and errors as OpenAI's."""

from __future__ import annotations

import json

import httpx
import pytest

from .test_thinking import MESSAGES, body, events_of


def test_the_next_member_answers(owner: httpx.Client) -> None:
    for streams in (False, True):
        ask = body(MESSAGES, "after-500-plain" if not streams else "after-500-streamed")
        answer = owner.post(MESSAGES, json=ask | {"stream": streams})
        assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "good")


def test_the_answer_names_its_model_and_usage(owner: httpx.Client) -> None:
    whole = owner.post(MESSAGES, json=body(MESSAGES, "fast")).json()
    assert whole["model"] == "good"
    assert whole["content"] == [{"type": "text", "text": "one two three four"}]
    assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (3, 4)
    start, *_ = events_of(owner, MESSAGES, model="fast")
    assert start["message"]["model"] == "good"


@pytest.mark.parametrize("fault", ["cut", "crash"])
def test_an_answer_that_breaks_off_is_an_error(owner: httpx.Client, fault: str) -> None:
    answer = owner.post(MESSAGES, json=body(MESSAGES, fault))
    assert (answer.status_code, answer.json()["type"]) == (502, "error")
    events = events_of(owner, MESSAGES, model=fault)
    assert events[-1]["type"] == "error"
    assert not {"message_delta", "message_stop"} & {event["type"] for event in events}


def test_errors_have_the_shape_of_the_interface(owner: httpx.Client, guest: httpx.Client) -> None:
    wrong = guest.post(MESSAGES, json=body(MESSAGES, "good"))
    assert (wrong.status_code, wrong.json()["type"]) == (403, "error")
    assert wrong.json()["error"]["type"] == "permission_error"
    late = owner.post(MESSAGES, json=body(MESSAGES, "forever") | {"stream": True})
    last = late.text.strip().split("\n\n")[-1]
    assert last.startswith("event: error\ndata: ")
    assert json.loads(last.split("data: ")[1])["error"]["type"] == "timeout_error"

"""Conversations that do not fit are refused with LiteLLM's own count; answers end in time."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from .test_thinking import CHAT, MESSAGES, RESPONSES, body
from .upstream import Upstream

LIMITS = {CHAT: "max_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"}


def long_body(path: str, words: int) -> dict[str, Any]:
    text = "word " * words
    if path == RESPONSES:
        return {"model": "short", "input": text}
    return body(path, "short") | {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("path", LIMITS)
def test_what_does_not_fit_is_refused_with_both_numbers(
    owner: httpx.Client, upstream: Upstream, path: str
) -> None:
    before = len(upstream.requests_for("short"))
    answer = owner.post(path, json=long_body(path, 1200))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    for part in ("about 1,2", "short takes 875 of its 1,000", "more room: "):
        assert part in error["message"]
    assert len(upstream.requests_for("short")) == before


@pytest.mark.parametrize("path", LIMITS)
def test_an_answer_may_take_what_is_left(
    owner: httpx.Client, upstream: Upstream, path: str
) -> None:
    assert owner.post(path, json=long_body(path, 700)).status_code == 200
    sent = upstream.requests_for("short")[-1]
    limit = sent.get("max_tokens") or sent.get("max_output_tokens")
    assert limit == pytest.approx(300, abs=10)


def test_a_stream_is_refused_before_it_starts(owner: httpx.Client) -> None:
    answer = owner.post(CHAT, json=long_body(CHAT, 1200) | {"stream": True})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"

"""How long a request may take, who is told, and that nobody goes on working for nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .conftest import Gateway
from .house import MODES
from .talk import CHAT, MESSAGES, chat, leave
from .upstream import Upstream


@pytest.mark.parametrize("mode", MODES)
def test_member_s_does_not_cut_a_long_answer(owner: httpx.Client, mode: str) -> None:
    """Two seconds of tokens, where a member has one second to its first."""
    for _ in range(3):
        start = time.monotonic()
        heard = chat(owner, "slowly", mode)
        # Thrice at most: where a machine stands still for that second, the first token is late.
        if not (heard.error and heard.error["code"] == "member_timeout"):
            break
    assert time.monotonic() - start > 1.5
    assert (heard.status, heard.text, heard.end) == (200, "one two three four", "stop")


def test_total_s_ends_a_plain_request_with_504(owner: httpx.Client, upstream: Upstream) -> None:
    for _ in range(3):
        upstream.left.clear()
        start = time.monotonic()
        heard = chat(owner, "forever")
        took_s = time.monotonic() - start
        assert took_s > 2.9
        assert heard.status == 504
        assert heard.error is not None
        assert heard.error["code"] == "total_timeout"
        assert upstream.was_left("endless")
        # Thrice at most: a machine that looks elsewhere for a moment is late by itself.
        if took_s < 4:
            break
    assert took_s < 4


def test_total_s_ends_a_stream_with_an_error(
    owner: httpx.Client, upstream: Upstream, gateway: Gateway
) -> None:
    upstream.left.clear()
    seen = len(gateway.lines())
    heard = chat(owner, "forever", "streamed")
    assert heard.status == 200
    assert heard.text.startswith("one two ")
    assert heard.error is not None
    assert heard.error["code"] == "total_timeout"
    assert (heard.end, heard.done) == (None, False)
    assert gateway.line_after(seen, "forever")["end"] == "total_timeout"
    assert upstream.was_left("endless")


@pytest.mark.parametrize("stream", [False, True])
def test_a_caller_who_leaves_stops_the_member(
    owner: httpx.Client, upstream: Upstream, gateway: Gateway, stream: bool
) -> None:
    upstream.left.clear()
    seen, before = len(gateway.lines()), len(upstream.asked("endless"))
    body = {"model": "unending", "messages": MESSAGES, "stream": stream}
    if stream:
        with owner.stream("POST", CHAT, json=body) as answer:
            next(answer.iter_raw())
    else:
        request = owner.build_request("POST", CHAT, json=body)
        leave(request, lambda: len(upstream.asked("endless")) > before)
    assert upstream.was_left("endless")
    assert gateway.line_after(seen, "unending")["end"] == "left"


def test_twenty_callers_at_once_get_their_own_answers(
    owner: httpx.Client, upstream: Upstream
) -> None:
    jobs = [(name, mode) for name in ("fast", "after-500-crowd-plain") for mode in MODES] * 5
    with ThreadPoolExecutor(20) as pool:
        heard = list(pool.map(lambda job: chat(owner, *job), jobs))
    assert {(each.status, each.member, each.text) for each in heard} == {
        (200, "good", "one two three four")
    }

"""How long a request may take, who is told, and that nobody goes on working for nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .conftest import Gateway
from .house import MODES
from .talk import CHAT, MESSAGES, chat
from .upstream import Upstream


@pytest.mark.parametrize("mode", MODES)
def test_member_s_does_not_cut_a_long_answer(owner: httpx.Client, mode: str) -> None:
    """Two seconds of tokens, where a member has one second to its first."""
    start = time.monotonic()
    heard = chat(owner, "slowly", mode)
    assert time.monotonic() - start > 1.5
    assert (heard.status, heard.text, heard.end) == (200, "one two three four", "stop")


def test_total_s_ends_a_plain_request_with_504(owner: httpx.Client, upstream: Upstream) -> None:
    upstream.left.clear()
    start = time.monotonic()
    heard = chat(owner, "forever")
    assert 2.9 < time.monotonic() - start < 4
    assert heard.status == 504
    assert heard.error is not None
    assert heard.error["code"] == "total_timeout"
    assert upstream.was_left("endless")


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
    assert gateway.line_after(seen)["end"] == "total_timeout"
    assert upstream.was_left("endless")


@pytest.mark.parametrize("stream", [False, True])
def test_a_caller_who_leaves_stops_the_member(
    owner: httpx.Client, upstream: Upstream, gateway: Gateway, stream: bool
) -> None:
    upstream.left.clear()
    seen = len(gateway.lines())
    body = {"model": "endless", "messages": MESSAGES, "stream": stream}
    try:
        with owner.stream("POST", CHAT, json=body, timeout=1) as response:
            next(response.iter_raw())
    except httpx.ReadTimeout:
        assert not stream
    assert upstream.was_left("endless")
    assert gateway.line_after(seen)["end"] == "left"


def test_twenty_callers_at_once_get_their_own_answers(
    owner: httpx.Client, upstream: Upstream
) -> None:
    jobs = [(name, mode) for name in ("fast", "after-500-plain") for mode in MODES] * 5
    with ThreadPoolExecutor(20) as pool:
        heard = list(pool.map(lambda job: chat(owner, *job), jobs))
    assert {(each.status, each.member, each.text) for each in heard} == {
        (200, "good", "one two three four")
    }

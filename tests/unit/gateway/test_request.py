"""What strangers send instead of a request, and members instead of an answer."""

from __future__ import annotations

import asyncio

import pytest

from hearth_gateway import request, wire
from hearth_gateway.call import Message

DEEP = b'{"a":' * 100_000


def test_a_body_of_brackets_is_refused_like_any_other_that_is_no_object() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": DEEP}

    with pytest.raises(request.Stop, match="not a JSON object") as stop:
        asyncio.run(request.body(receive, request.nothing))
    assert stop.value.status == 400


def test_an_event_of_brackets_says_nothing() -> None:
    assert list(wire.Events().feed(b"data: " + DEEP + b"\n\n")) == [None]

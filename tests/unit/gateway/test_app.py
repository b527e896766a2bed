"""Malformed bodies of requests and malformed answers of members."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from hearth_gateway.app import LogLine, read_json
from hearth_gateway.events import EventReader
from hearth_gateway.litellm_call import Message
from hearth_serving.errors import ServiceError

DEEP = b'{"a":' * 100_000


def test_a_body_of_brackets_is_rejected_like_any_other_that_is_not_an_object() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": DEEP}

    request = Request({"type": "http", "headers": [], "path": "/v1/completions"}, receive)
    with pytest.raises(ServiceError, match="not a JSON object") as error:
        asyncio.run(read_json(request))
    assert error.value.status == 400


def test_an_event_of_brackets_has_no_data() -> None:
    assert list(EventReader().feed(b"data: " + DEEP + b"\n\n")) == [None]


def test_an_entry_of_the_log_is_one_line_of_bounded_length() -> None:
    forged = "x\nconsumer=forged \x1b[2J\u2028\x85"
    text = LogLine(forged * 100, name=forged, end=forged).text(404)
    assert text.isprintable()
    assert [word for word in text.split() if word.startswith("consumer=")] == ["consumer=-"]
    assert len(text) < 2000

"""Malformed bodies of requests and malformed answers of members."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from hearth_gateway.app import read_json
from hearth_gateway.events import EventReader
from hearth_gateway.litellm_call import Message
from hearth_serving.errors import ServiceError

DEEP = b'{"a":' * 100_000


def test_a_body_of_brackets_is_rejected_like_any_other_that_is_not_an_object() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": DEEP}

    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(ServiceError, match="not a JSON object") as error:
        asyncio.run(read_json(request, lambda _: False))
    assert error.value.status == 400


def test_an_event_of_brackets_has_no_data() -> None:
    assert list(EventReader().feed(b"data: " + DEEP + b"\n\n")) == [None]

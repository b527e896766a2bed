"""A connection that breaks ends a stream like any other trouble, and only where lines are read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

from hearth_open_webui import streams


class ClientError(Exception):
    """As aiohttp calls what happens to a connection."""


class PayloadError(ClientError):
    """As one kind of it."""


def broken(error: Exception | None) -> streams.Wrapper:
    async def wrapped(response: list[bytes], passthrough: bool = False) -> AsyncIterator[bytes]:
        for line in response:
            yield line
        if error is not None:
            raise error

    return wrapped


def read(wrapper: streams.Wrapper, *lines: bytes, **named: Any) -> list[bytes]:
    async def gather() -> list[bytes]:
        return [line async for line in streams.unbroken(wrapper)(list(lines), **named)]

    return asyncio.run(gather())


@pytest.mark.parametrize("error", [PayloadError("cut"), ConnectionResetError(), TimeoutError()])
def test_a_broken_connection_is_an_event_behind_what_came(error: Exception) -> None:
    *came, end, event = read(broken(error), b"data: 1\n", b"data: 2\n")
    assert came == [b"data: 1\n", b"data: 2\n"]
    assert end == b"\n"
    assert json.loads(event.removeprefix(b"data:"))["error"]["message"] == streams.BROKEN


def test_a_whole_stream_is_as_it_was() -> None:
    assert read(broken(None), b"a", b"b") == [b"a", b"b"]


@pytest.mark.parametrize(
    ("error", "named"), [(PayloadError(), {"passthrough": True}), (ValueError(), {})]
)
def test_bytes_that_pass_unread_and_other_errors_break_as_ever(
    error: Exception, named: dict[str, Any]
) -> None:
    with pytest.raises(type(error)):
        read(broken(error), b"a", **named)


def test_what_passes_answers_on_is_exchanged_and_its_absence_is_loud() -> None:
    module = ModuleType("open_webui.routers.openai")
    with pytest.raises(AttributeError):
        streams.patch(module)
    module.stream_wrapper = broken(ConnectionResetError())  # type: ignore[attr-defined]
    streams.patch(module)

    async def gather() -> list[bytes]:
        return [line async for line in module.stream_wrapper([])]

    assert len(asyncio.run(gather())) == 2

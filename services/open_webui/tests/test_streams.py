"""A broken connection ends a stream with an error event, but only if lines are parsed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

from hearth_open_webui import streams


class ClientError(Exception):
    """Named like aiohttp's base class of connection errors."""


class PayloadError(ClientError):
    """A subclass of it."""


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
def test_a_broken_connection_becomes_an_event_after_the_received_lines(error: Exception) -> None:
    *received, end, event = read(broken(error), b"data: 1\n", b"data: 2\n")
    assert received == [b"data: 1\n", b"data: 2\n"]
    assert end == b"\n"
    assert json.loads(event.removeprefix(b"data:"))["error"]["message"] == streams.BROKEN


def test_a_complete_stream_is_unchanged() -> None:
    assert read(broken(None), b"a", b"b") == [b"a", b"b"]


@pytest.mark.parametrize(
    ("error", "named"), [(PayloadError(), {"passthrough": True}), (ValueError(), {})]
)
def test_passthrough_streams_and_other_errors_still_raise(
    error: Exception, named: dict[str, Any]
) -> None:
    with pytest.raises(type(error)):
        read(broken(error), b"a", **named)


def test_patch_replaces_the_wrapper_and_fails_if_it_is_missing() -> None:
    module = ModuleType("open_webui.routers.openai")
    with pytest.raises(AttributeError):
        streams.patch(module)
    module.stream_wrapper = broken(ConnectionResetError())  # type: ignore[attr-defined]
    streams.patch(module)

    async def gather() -> list[bytes]:
        return [line async for line in module.stream_wrapper([])]

    assert len(asyncio.run(gather())) == 2

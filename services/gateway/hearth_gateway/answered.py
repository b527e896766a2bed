"""The model that answered, as its server names it.

LiteLLM writes the requested model into every answer, whatever the server wrote there. So the
server's own name is read below LiteLLM, where its HTTP client reads the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import httpx

from hearth_gateway.events import EventReader, event_bytes

# Parsing a large answer twice would cost too much; a quotation mark inside a text is escaped.
_IN_JSON = re.compile(rb'"model"\s*:\s*"((?:[^"\\]|\\.){1,200})"')
_TAIL_BYTES = 512
# Inside these, the Responses interface and Anthropic's write the name.
_WITHIN = ("response", "message")


class Observation:
    """What one call's server names as its model; None until it does."""

    def __init__(self) -> None:
        """Start before the answer."""
        self.model: str | None = None
        self._events, self._tail = EventReader(), b""

    def read(self, piece: bytes, *, events: bool) -> None:
        """Read the next piece of the answer, a stream of `events` or JSON."""
        if self.model is not None:
            return
        if events:
            self.model = next(filter(None, map(_named, self._events.feed(piece))), None)
        elif found := _IN_JSON.search(self._tail + piece):
            with suppress(ValueError):
                self.model = str(json.loads(b'"' + found[1] + b'"'))
        self._tail = b"" if events else (self._tail + piece)[-_TAIL_BYTES:]


observed: ContextVar[Observation | None] = ContextVar("observed", default=None)


class _Watched(httpx.AsyncByteStream):
    """The body of a response, read by an observation on its way."""

    def __init__(self, response: httpx.Response, seen: Observation) -> None:
        self._stream: Any = response.stream
        self._seen, self._events = seen, _streams(response)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._seen.read(piece, events=self._events)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def install() -> None:
    """Let each call's observation read what LiteLLM's HTTP client gets for it."""
    send = httpx.AsyncClient.send

    async def watched(client: httpx.AsyncClient, request: httpx.Request, **more: Any) -> Any:
        seen = observed.get()
        if seen is None:
            return await send(client, request, **more)
        # What is compressed cannot be read on its way.
        request.headers["accept-encoding"] = "identity"
        response = await send(client, request, **more)
        if response.is_stream_consumed:
            seen.read(response.content, events=_streams(response))
        elif response.is_success:
            response.stream = _Watched(response, seen)
        return response

    httpx.AsyncClient.send = watched  # type: ignore[assignment, method-assign]


def with_model(raw: bytes, event: Any, model: str) -> bytes:
    """Return one event of a stream with this model's name in the place of another."""
    named = [place for place in _places(event) if "model" in place]
    if not named:
        return raw
    for part in named:
        part["model"] = model
    head = [line + b"\n" for line in raw.split(b"\n") if line and not line.startswith(b"data:")]
    return b"".join(head) + event_bytes(event)


def _named(event: Any) -> str | None:
    names = (place.get("model") for place in _places(event))
    return next((name for name in names if name and isinstance(name, str)), None)


def _places(event: Any) -> list[dict[str, Any]]:
    found = [event, *(event.get(name) for name in _WITHIN)] if isinstance(event, dict) else []
    return [place for place in found if isinstance(place, dict)]


def _streams(response: httpx.Response) -> bool:
    return str(response.headers.get("content-type", "")).startswith("text/event-stream")

"""Asks a server in which pieces it speaks a text: the SSE form tells each piece's words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx

from hearth.bench.tts.call import body_of
from hearth.clients.endpoints import Endpoint
from hearth.clients.tts import PATH, SpeechRequest


async def first_piece(
    client: httpx.AsyncClient, server: Endpoint, ask: SpeechRequest
) -> str | None:
    """Return the words of the first piece; None where the server does not say.

    It leaves as soon as it knows: a server that goes on speaking to nobody is the server's fault.
    """
    body = body_of(server, ask) | {"stream_format": "sse", "stream": True}
    try:
        async with (
            asyncio.timeout(server.call_s),
            client.stream("POST", PATH, json=body) as response,
        ):
            kind = response.headers.get("content-type", "")
            if not response.is_success or not kind.startswith("text/event-stream"):
                return None
            async for event in _events(response):
                if event.get("type") == "speech.audio.delta":
                    text = event.get("text")
                    return text if isinstance(text, str) and text.strip() else None
    except (TimeoutError, httpx.HTTPError, OSError):
        return None
    return None


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, object]]:
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data and data != "[DONE]":
            try:
                event = json.loads(data)
            except ValueError:
                return
            if isinstance(event, dict):
                yield event

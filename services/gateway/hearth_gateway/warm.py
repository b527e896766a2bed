"""The first call in LiteLLM's life imports for two seconds: nobody should have to wait for it."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

from hearth_gateway.call import App, Call, Message, Refused, Send
from hearth_gateway.settings import House

_PATH = "/v1/chat/completions"


def before_ready(app: App, house: House, send: Send) -> Send:
    """Return a `send` for the lifespan that makes one call without a member before it is ready."""

    async def send_warm(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete" and _members(house):
            await _through_proxy(app, house)
            await _through_client()
        await send(message)

    return send_warm


def _members(house: House) -> list[str]:
    """List what LiteLLM knows: all but who turns speech into text."""
    return [name.members[0] for name in house.names.values() if not name.servers]


async def _through_proxy(app: App, house: House) -> None:
    member = _members(house)[0]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": _PATH,
        "raw_path": _PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + house.own_key.encode())],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
    }
    body = {
        "model": member,
        "stream": True,
        "mock_response": "warm",  # LiteLLM answers by itself
        "messages": [{"role": "user", "content": "warm"}],
    }
    try:
        async with Call(app, scope, body, frozenset({member})) as call:
            await call.until_token()
            async for _ in call.rest():
                pass
    except Refused as refused:
        # LiteLLM runs; whatever is wrong with it will be said to the first caller too.
        print(f"hearth_gateway: the warm-up call failed: {refused.body}", flush=True)


async def _through_client() -> None:
    """Let LiteLLM's client read one stream: from a server of our own, so that no model loads."""
    # Not by `import`: type checkers take the repository's folder litellm/ for the package.
    litellm: Any = importlib.import_module("litellm")
    try:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            messages = [{"role": "user", "content": "warm"}]
            async with asyncio.timeout(10):
                stream = await litellm.acompletion(
                    model="openai/warm",
                    api_base=url,
                    api_key="none",
                    messages=messages,
                    stream=True,
                    max_retries=0,
                )
                async for _ in stream:
                    pass
    except Exception as error:  # whatever it is, the gateway works without; only slower at first
        print(f"hearth_gateway: the warm-up stream failed: {type(error).__name__}", flush=True)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    choice = {"index": 0, "delta": {"role": "assistant", "content": "warm"}}
    chunk = {"id": "w", "object": "chat.completion.chunk", "created": 1, "model": "warm"}
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for end in (None, "stop"):
        event = {**chunk, "choices": [{**choice, "finish_reason": end}]}
        writer.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()

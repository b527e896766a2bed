"""Calls of LiteLLM inside this process, each for one member, and the warm-up call.

LiteLLM's first call imports modules for two seconds. The warm-up call spares a caller this wait.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any

from hearth_gateway.answered import Observation, observed, with_model
from hearth_gateway.custom_auth import GRANT, WARM
from hearth_gateway.errors import MemberError, body_of, cleaned, member_error, shaped, status_of
from hearth_gateway.events import EventReader, error_in, has_token
from hearth_gateway.settings import GatewayConfig

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Bounds what is held for a slow reader; LiteLLM waits while it is full.
_QUEUE = 16
# A stream has this long to end after its client has left; then, it is cancelled until it ends.
_LEAVE_S, _CANCEL_S = 0.1, 1.0


class Call:
    """`async with Call(...)`: the member works while the block runs and is cancelled after it."""

    def __init__(
        self,
        app: App,
        config: GatewayConfig,
        path: str,
        body: dict[str, Any],
        came: Scope | None = None,
    ) -> None:
        """Prepare the call of `body["model"]`, the only one that LiteLLM accepts for it.

        Of the request that `came`, LiteLLM gets nothing but what was checked. It prefers a model
        in the query string to the one in the body, and headers change servers and times.
        """
        content = json.dumps(body).encode()
        headers = [
            (b"authorization", b"Bearer " + config.own_key.encode()),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        self._scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 0),
            # Of LiteLLM's own start; without a request it is the warm-up call.
            "state": dict((came or {}).get("state") or {}),
            GRANT: frozenset({str(body["model"])}),
            WARM: came is None,
        }
        self._app, self._config, self._member = app, config, str(body["model"])
        self._seen = Observation()
        self._content: bytes | None = content
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(_QUEUE)
        self._held: list[bytes] = []
        self._left = asyncio.Event()
        self._ended = False
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []

    async def __aenter__(self) -> Call:
        """Start the call."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call; LiteLLM closes its connection to the member."""
        # While it waits for the first event, LiteLLM closes the connection for a client that has
        # left, and leaves it open when it is cancelled. Before that it sees no client.
        self._left.set()
        await asyncio.wait({self._task}, timeout=_LEAVE_S)
        while not self._task.done():
            # It can swallow a cancellation while it connects, and would go on unread.
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_CANCEL_S)
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def answered_by(self) -> str:
        """The model that answered, by its server's own word; known from the first token on."""
        return self._config.answered_by(self._member, self._seen.model)

    async def _run(self) -> None:
        observed.set(self._seen)
        try:
            await self._app(self._scope, self._receive, self._messages.put)
        finally:
            if not self._task.cancelling():
                await self._messages.put(None)

    async def _receive(self) -> Message:
        if self._content is None:
            await self._left.wait()
            return {"type": "http.disconnect"}
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def _piece(self) -> bytes | None:
        """Return the next piece of the body, None after the last."""
        while not self._ended:
            message = await self._messages.get()
            if message is None:
                self._ended = True
            elif message["type"] == "http.response.start":
                self.status, self.headers = message["status"], list(message["headers"])
            elif message["type"] == "http.response.body":
                self._ended = not message.get("more_body")
                return bytes(message.get("body", b""))
        return None

    async def whole(self) -> bytes:
        """Return the whole body of an answer; raises MemberError for any status but 2xx."""
        pieces = self._held
        while (piece := await self._piece()) is not None:
            pieces.append(piece)
        body = b"".join(pieces)
        if not 200 <= self.status < 300:
            raise self._failed(self.status or 502, body_of(body, self.status))
        if self.answered_by != self._member:
            return json.dumps(json.loads(body) | {"model": self.answered_by}).encode()
        return body

    async def until_token(self) -> None:
        """Return at the member's first token; raises MemberError when there is none."""
        events = EventReader()
        while (piece := await self._piece()) is not None:
            self._held.append(piece)
            if not 200 <= self.status < 300:
                continue
            for event in events.feed(piece):
                if problem := error_in(event):
                    raise self._failed(status_of(problem), shaped(problem, 502))
                if has_token(event):
                    return
        await self.whole()
        message = f"{self._member} ended without an answer; ask again"
        raise member_error(502, message, "empty_answer")

    def _failed(self, status: int, body: dict[str, Any]) -> MemberError:
        return cleaned(self._member, status, body)

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield the pieces up to the first token, then those that follow."""
        renamed = self.answered_by if self.answered_by != self._member else None
        events = EventReader()
        async for piece in self._pieces():
            if renamed is None:
                yield piece
                continue
            for raw, event in events.cut(piece):
                yield with_model(raw, event, renamed)
        yield events.rest()

    async def _pieces(self) -> AsyncIterator[bytes]:
        held, self._held = self._held, []
        for piece in held:
            yield piece
        while (more := await self._piece()) is not None:
            yield more


def warm_up_before_ready(app: App, config: GatewayConfig, send: Send) -> Send:
    """Return a `send` for the lifespan that makes one call without a member before it is ready."""

    async def send_warm(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete" and _members(config):
            await _through_proxy(app, config)
            await _through_client()
        await send(message)

    return send_warm


def _members(config: GatewayConfig) -> list[str]:
    """Return the models that LiteLLM knows: all but those for speech to text."""
    return [name.members[0] for name in config.names.values() if not name.servers]


async def _through_proxy(app: App, config: GatewayConfig) -> None:
    member = _members(config)[0]
    body = {
        "model": member,
        "stream": True,
        "mock_response": "warm",  # LiteLLM makes the answer up
        "messages": [{"role": "user", "content": "warm"}],
    }
    try:
        async with Call(app, config, "/v1/chat/completions", body) as call:
            await call.until_token()
            async for _ in call.rest():
                pass
    except MemberError as error:
        # LiteLLM runs; the first caller gets the same error.
        print(f"hearth_gateway: the warm-up call failed: {error.body}", flush=True)


async def _through_client() -> None:
    """Let LiteLLM's client read one stream, from a server of our own: no model is loaded."""
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
    except Exception as error:  # the gateway works without it, only slower at first
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

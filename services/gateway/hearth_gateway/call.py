"""One call of LiteLLM inside this process, for one member, that can be given up at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any

from hearth_gateway import wire, words
from hearth_gateway.custom_auth import GRANT

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Bounds what a slow reader makes us hold; LiteLLM waits while it is full.
_QUEUE = 16
# Others steer LiteLLM (x-litellm-timeout, ...) or ask for an encoding that we could not read.
_PASSED = frozenset({b"host", b"authorization", b"user-agent"})


class Refused(Exception):
    """The member gave no answer; `final` when no other one would either."""

    def __init__(self, status: int, body: dict[str, Any], retry_after_s: int | None = None) -> None:
        """Keep what the member said, for the case that nobody says anything better."""
        super().__init__(f"HTTP {status}")
        self.status, self.body, self.retry_after_s = status, body, retry_after_s
        self.final = status in wire.FINAL_STATUS


class Call:
    """`async with Call(...)`: the member works while the block runs and is stopped after it."""

    def __init__(self, app: App, scope: Scope, body: dict[str, Any], granted: frozenset[str]):
        """Prepare the call of `body["model"]`; `granted` are the names LiteLLM may let through."""
        content = json.dumps(body).encode()
        headers = [(name, value) for name, value in scope["headers"] if name in _PASSED]
        headers.append((b"content-type", b"application/json"))
        headers.append((b"content-length", str(len(content)).encode()))
        self._scope = {**scope, "headers": headers, "state": dict(scope.get("state") or {})}
        self._scope[GRANT] = granted
        self._app, self._member = app, str(body["model"])
        self._content: bytes | None = content
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue(_QUEUE)
        self._held: list[bytes] = []
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
        """Stop the call; LiteLLM closes its connection to the member."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._messages.put)
        finally:
            if not self._task.cancelling():
                await self._messages.put(None)

    async def _receive(self) -> Message:
        if self._content is None:
            await asyncio.Event().wait()  # until this call is given up
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
        """Return the whole body of an answer; raises `Refused` for any status but 2xx."""
        pieces = self._held
        while (piece := await self._piece()) is not None:
            pieces.append(piece)
        body = b"".join(pieces)
        if not 200 <= self.status < 300:
            raise self._refused(self.status or 502, wire.error_of(body, self.status))
        return body

    async def until_token(self) -> None:
        """Return when the member has made its first token; raises `Refused` when it will not."""
        events = wire.Events()
        while (piece := await self._piece()) is not None:
            self._held.append(piece)
            if not 200 <= self.status < 300:
                continue
            for event in events.feed(piece):
                if problem := wire.stream_error(event):
                    raise self._refused(wire.status_of(problem), wire.shaped(problem, 502))
                if wire.carries_token(event):
                    return
        await self.whole()
        text = f"{self._member} ended without an answer; ask again"
        raise Refused(502, wire.error(502, text, "empty_answer"))

    def _refused(self, status: int, body: dict[str, Any]) -> Refused:
        return Refused(status, words.plainly(self._member, body))

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield what was held until the first token, then what follows."""
        held, self._held = self._held, []
        for piece in held:
            yield piece
        while (more := await self._piece()) is not None:
            yield more

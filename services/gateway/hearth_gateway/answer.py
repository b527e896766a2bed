"""What goes back to the caller: headers held until it is known who answers, then the body."""

from __future__ import annotations

import json
from typing import Any

from hearth_gateway import wire
from hearth_gateway.call import Call, Message, Refused, Send

_OURS = b"x-hearth-model"
# LiteLLM's own headers tell addresses of the house; lengths are wrong once a body was rebuilt.
_DROPPED = (b"x-litellm-", b"llm_provider-", b"content-length", b"server")


class Answer:
    """One answer to one caller; `status` is 0 until its headers are sent."""

    def __init__(self, send: Send) -> None:
        """Answer through `send`."""
        self._send = send
        self._streams = False
        self.status = 0

    async def relay(self, message: Message) -> None:
        """Pass one of LiteLLM's own messages on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": _kept(message["headers"], keep_length=True)}
        await self._send(message)

    async def give(self, member: str, call: Call, body: bytes) -> None:
        """Send a whole answer as the member gave it."""
        await self._start(call.status, _kept(call.headers), member, len(body))
        await self._body(body, more=False)

    async def gather(self, member: str, call: Call) -> None:
        """Read a stream to its end and send it as one answer."""
        events, assembly = wire.Events(), wire.Assembly()
        async for piece in call.rest():
            for event in events.feed(piece):
                if problem := wire.stream_error(event):
                    raise Refused(502, {"error": problem})
                if isinstance(event, dict):
                    assembly.add(event)
        if not assembly.finished:
            raise Refused(502, wire.error(502, f"{member} broke off", "broken_off"))
        body = json.dumps(assembly.answer(), separators=(",", ":")).encode()
        await self._start(200, [(b"content-type", b"application/json")], member, len(body))
        await self._body(body, more=False)

    async def stream(self, member: str, call: Call) -> None:
        """Pass a stream on, piece by piece."""
        self._streams = True
        await self._start(call.status, _kept(call.headers), member, None)
        async for piece in call.rest():
            await self._body(piece, more=True)
        await self._body(b"", more=False)

    async def fail(self, status: int, body: dict[str, Any]) -> None:
        """Say what went wrong: as the answer, or as the last event of a stream that runs."""
        if not self.status:
            content = json.dumps(body).encode()
            await self._start(status, [(b"content-type", b"application/json")], None, len(content))
            await self._body(content, more=False)
        elif self._streams:
            # No [DONE] and no finish_reason: nobody may take this for a whole answer.
            await self._body(wire.event_bytes(body), more=False)

    async def _start(
        self,
        status: int,
        headers: list[tuple[bytes, bytes]],
        member: str | None,
        length: int | None,
    ) -> None:
        self.status = status
        if member is not None:
            headers = [*headers, (_OURS, member.encode())]
        if length is not None:
            headers = [*headers, (b"content-length", str(length).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _kept(
    headers: list[tuple[bytes, bytes]], *, keep_length: bool = False
) -> list[tuple[bytes, bytes]]:
    dropped = tuple(name for name in _DROPPED if not (keep_length and name == b"content-length"))
    return [(name, value) for name, value in headers if not name.lower().startswith(dropped)]

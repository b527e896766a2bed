"""What goes back to the caller: headers held until it is known who answers, then the body."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

from hearth_gateway import chunk, wire, words
from hearth_gateway.assembly import Assembly
from hearth_gateway.call import Refused, Send
from hearth_gateway.request import Stop

_OURS = b"x-hearth-model"
# LiteLLM's own headers tell addresses of the house; lengths are wrong once a body was rebuilt.
_DROPPED = (b"x-litellm-", b"llm_provider-", b"content-length", b"server")
# An error is a few words; a longer event is passed on unread.
_ERROR_BYTES = 64 * 1024


class Said(Protocol):
    """What a member answers, whoever carried it here."""

    status: int
    headers: list[tuple[bytes, bytes]]

    def rest(self) -> AsyncIterator[bytes]:
        """Yield the body."""


class Answer:
    """One answer to one caller; `status` is 0 until its headers are sent."""

    def __init__(self, send: Send) -> None:
        """Answer through `send`."""
        self._send = send
        self._streams = self._chunks = False
        self._aside = b""
        self.status = 0
        self.ended = False
        self.end = "done"

    async def say(
        self,
        status: int,
        content: dict[str, Any],
        member: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        """Send a whole answer of our own making."""
        body = json.dumps(content, separators=(",", ":")).encode()
        headers = [(b"content-type", b"application/json")]
        if retry_after_s is not None:
            headers.append((b"retry-after", str(retry_after_s).encode()))
        await self._start(status, headers, member, len(body))
        await self._body(body, more=False)

    async def give(self, member: str, call: Said, body: bytes) -> None:
        """Send a whole answer as the member gave it."""
        await self._start(call.status, _kept(call.headers), member, len(body))
        await self._body(body, more=False)

    async def gather(
        self, member: str, call: Said, assembly: Assembly, *, chunks: bool = False
    ) -> None:
        """Read a stream to its end and send it as one answer; of `chunks`, what they may hold."""
        events = wire.Events()
        async for piece in call.rest():
            for event in events.feed(piece):
                if problem := wire.stream_error(event):
                    raise Refused(*words.broken(member, problem))
                if isinstance(event, dict):
                    assembly.add(chunk.kept(event) if chunks else event)
        if not assembly.finished:
            raise Refused(502, wire.error(502, f"{member} broke off", "broken_off"))
        await self.say(200, assembly.answer(), member)

    async def stream(
        self, member: str, call: Said, aside: bytes = b"", *, chunks: bool = False
    ) -> None:
        """Pass a stream on, event by event, and say something `aside` behind the first token.

        Of `chunks` goes on what they may hold, and so they are read however long they are: one
        with a picture is, and LiteLLM has held it already.

        Raises:
            Refused: the member did not end it.
        """
        self._streams, self._aside, self._chunks = True, aside, chunks
        await self._start(call.status, _kept(call.headers), member, None)
        events = wire.Events(None if chunks else _ERROR_BYTES)
        async for piece in call.rest():
            # What came together goes out together.
            whole, problem = self._whole(events, piece)
            if whole:
                await self._body(whole, more=True)
            if problem:
                raise Refused(*words.broken(member, problem))
            if self.end == "broken_off":
                # LiteLLM itself goes on with [DONE], which looks like an end.
                await self._body(b"", more=False)
                return
        await self._body(b"" if chunks else events.rest(), more=False)

    def _whole(self, events: wire.Events, piece: bytes) -> tuple[bytes, dict[str, Any] | None]:
        """Return the events that `piece` completes, up to the one that tells of trouble."""
        whole = bytearray()
        for raw, event in events.cut(piece):
            if problem := wire.stream_error(event):
                self.end = "broken_off"
                # Interfaces that name their events have one for this, in the server's own words.
                if self._chunks or "type" not in event:
                    return bytes(whole), problem
                return bytes(whole) + raw, None
            whole += chunk.plain(raw, event) if self._chunks else raw
            if self._aside and wire.carries_token(event):
                whole += self._aside
                self._aside = b""
        return bytes(whole), None

    async def fail(self, end: Refused | Stop) -> None:
        """Say what went wrong: as the answer, or as the last event of a stream that runs."""
        if not self.status:
            await self.say(end.status, end.body, retry_after_s=end.retry_after_s)
        elif self._streams:
            # No [DONE] and no finish_reason: nobody may take this for a whole answer.
            await self._body(wire.event_bytes(end.body), more=False)

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
        self.ended = not more


def _kept(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if not name.lower().startswith(_DROPPED)]

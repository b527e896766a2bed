"""The response to a client: its headers wait until a member answers, then the body follows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from hearth_gateway.assembly import Assembly
from hearth_gateway.errors import INTERRUPTED, MemberError, interrupted, member_error
from hearth_gateway.events import (
    EventReader,
    error_in,
    event_bytes,
    filtered,
    has_token,
    known_fields,
)
from hearth_gateway.figures import Usage
from hearth_gateway.interfaces import MESSAGES
from hearth_gateway.litellm_call import Scope, Send
from hearth_gateway.thought import ThoughtWatch

_MODEL_HEADER = b"x-hearth-model"
# LiteLLM's own headers contain addresses of the house; a rebuilt body has another length.
_DROPPED = (b"x-litellm-", b"llm_provider-", b"content-length", b"server")
# An error is short; a longer event is forwarded unread.
_ERROR_BYTES = 64 * 1024


class MemberAnswer(Protocol):
    """A member's answer, from LiteLLM or from a server."""

    status: int
    headers: list[tuple[bytes, bytes]]

    def rest(self) -> AsyncIterator[bytes]:
        """Yield the body."""


class Response:
    """The response to one caller; `status` is 0 until its headers are sent."""

    def __init__(self, send: Send, path: str = "") -> None:
        self._send, self._path = send, path
        self._streams = self._chunks = False
        self._note = b""
        self._watch: ThoughtWatch | None = None
        self.usage = Usage()
        self.hides_usage = False
        self.status = 0
        self.ended = False
        self.end = "done"

    async def send_json(
        self,
        status: int,
        content: dict[str, Any],
        member: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        """Send a whole response of our own."""
        body = json.dumps(content, separators=(",", ":")).encode()
        headers = [(b"content-type", b"application/json")]
        if retry_after_s is not None:
            headers.append((b"retry-after", str(retry_after_s).encode()))
        await self._start(status, headers, member, len(body))
        await self._body(body, more=False)

    async def send_body(self, body: bytes, media_type: str) -> None:
        """Send a whole response of our own that is no JSON."""
        await self._start(200, [(b"content-type", media_type.encode())], None, len(body))
        await self._body(body, more=False)

    async def send_whole(self, member: str, answer: MemberAnswer, body: bytes) -> None:
        """Send a member's whole answer unchanged."""
        await self._start(answer.status, _kept(answer.headers), member, len(body))
        await self._body(body, more=False)

    async def send_assembled(
        self,
        member: str,
        answer: MemberAnswer,
        assembly: Assembly,
        watch: ThoughtWatch,
        *,
        chunks: bool = False,
    ) -> None:
        """Read a stream to its end and send it in one piece; of `chunks`, the known fields."""
        events = EventReader()
        async for piece in answer.rest():
            for event in events.feed(piece):
                if problem := error_in(event):
                    raise interrupted(member, problem)
                if isinstance(event, dict):
                    self.usage.read(event)
                    known = known_fields(event) if chunks else event
                    assembly.add(watch.read(known) or known)
        if not assembly.finished:
            raise member_error(502, f"{member} broke off", INTERRUPTED)
        await self.send_json(200, assembly.answer(), member)

    async def stream(
        self,
        member: str,
        answer: MemberAnswer,
        note: bytes = b"",
        watch: ThoughtWatch | None = None,
        *,
        chunks: bool = False,
    ) -> None:
        """Pass a stream on, event by event, with a `note` after the first token.

        Of `chunks` only the known fields go on. What is watched is read whatever its length: one
        event with a picture is long, and LiteLLM has held it already.

        Raises:
            MemberError: the member did not end the stream.
        """
        self._streams, self._note, self._chunks, self._watch = True, note, chunks, watch
        await self._start(answer.status, _kept(answer.headers), member, None)
        events = EventReader(None if watch or chunks else _ERROR_BYTES)
        async for piece in answer.rest():
            # Events that arrived together are sent together.
            whole, problem = self._whole(events, piece)
            if whole:
                await self._body(whole, more=True)
            if problem:
                raise interrupted(member, problem)
            if self.end == INTERRUPTED:
                # LiteLLM would send [DONE], which looks like a regular end.
                await self._body(b"", more=False)
                return
        await self._body(b"" if chunks else events.rest(), more=False)

    def _whole(self, events: EventReader, piece: bytes) -> tuple[bytes, dict[str, Any] | None]:
        """Return the events that `piece` completes, up to one that reports an error."""
        whole = bytearray()
        for raw, event in events.cut(piece):
            if problem := error_in(event):
                self.end = INTERRUPTED
                # Interfaces that name their events have one for errors; it goes on unchanged.
                if self._chunks or "type" not in event:
                    return bytes(whole), problem
                return bytes(whole) + raw, None
            self.usage.read(event)
            if self.hides_usage and isinstance(event, dict) and event.pop("usage", None):
                if not has_token(event):
                    continue
                raw = event_bytes(event)
            passed = filtered(raw, event) if self._chunks else raw
            known = known_fields(event) if self._chunks and isinstance(event, dict) else event
            if self._watch and (reported := self._watch.read(known)):
                passed = event_bytes(reported, named=not self._chunks)
                passed += status_line(self._watch.message) if self._watch.shows_lines else b""
            whole += passed
            if self._note and has_token(event):
                whole += self._note
                self._note = b""
        return bytes(whole), None

    async def send_error(self, error: MemberError) -> None:
        """Send an error as the response, or as the last event of a running stream."""
        # The messages interface adds its type to the same shape.
        named = self._path == MESSAGES
        body = {"type": "error", **error.body} if named else error.body
        if not self.status:
            await self.send_json(error.status, body, retry_after_s=error.retry_after_s)
        elif self._streams:
            # Without [DONE] and finish_reason, no client takes this for a whole answer.
            await self._body(event_bytes(body, named=named), more=False)

    async def _start(
        self,
        status: int,
        headers: list[tuple[bytes, bytes]],
        member: str | None,
        length: int | None,
    ) -> None:
        self.status = status
        if member is not None:
            headers = [*headers, (_MODEL_HEADER, member.encode())]
        if length is not None:
            headers = [*headers, (b"content-length", str(length).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _body(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self.ended = not more


def _kept(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if not name.lower().startswith(_DROPPED)]


def wants_note(scope: Scope) -> bool:
    """Return whether this client shows a line above the answer.

    Open WebUI shows a `status` in a stream as such a line, and keeps it with the chat. No other
    program expects one, so a header requests it.
    """
    return (b"x-hearth-status", b"open-webui") in scope["headers"]


def model_note(name: str, member: str, failed: Sequence[str], leaves: bool) -> bytes:
    """Return the event with the model that answers for `name`; nothing for `name` itself."""
    if member == name:
        return b""
    where = ", outside this house" if leaves else ""
    *others, last = failed or [""]
    names = f"{', '.join(others)} and {last}" if others else last
    reason = f"; {names} gave no answer" if failed else ""
    return status_line(f"Answered by {member}{where}{reason}")


def status_line(text: str) -> bytes:
    """Return the event that Open WebUI shows as a line above the answer."""
    data = {"description": text, "done": True}
    return event_bytes({"event": {"type": "status", "data": data}})

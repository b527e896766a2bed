"""Recordings go to their speech-to-text servers directly; LiteLLM would hold them in memory.

A 200 proves nothing here: an answer is checked for a text, and a stream for its end.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from hearth_gateway.errors import (
    INTERRUPTED,
    MemberError,
    body_of,
    cleaned,
    interrupted,
    member_error,
    shaped,
    status_of,
    unusable,
)
from hearth_gateway.events import EventReader, error_in
from hearth_gateway.settings import Name, Server
from hearth_gateway.uploads import Upload

# A server of the house accepts connections at once, even when its own queue is long.
CONNECT_S = 5.0
# A server that reads nothing of the recording for so long will not read the rest.
STALL_S = 60.0
# Enough for the text of a day, with its timestamps.
ANSWER_BYTES = 64 * 1024 * 1024
ERROR_BYTES = 64 * 1024
# Enough for one event with the text of a day; a longer one is forwarded unread.
_EVENT_BYTES = 1024 * 1024
_PASSED = ("content-type", "cache-control", "retry-after")


class Reply:
    """One server's response: its headers at once, its body as it arrives."""

    def __init__(self, member: str, response: httpx.Response, plain: bool = False) -> None:
        """Read the response of `member`; `plain` means text or subtitles, not JSON."""
        self._member, self._response, self._plain = member, response, plain
        self._pieces = response.aiter_bytes()
        self._held: list[bytes] = []
        self.status = response.status_code
        self.headers = [
            (name.encode(), response.headers[name].encode())
            for name in _PASSED
            if name in response.headers
        ]

    @property
    def model(self) -> str:
        """The model that answered, by a server that chose one of several; empty without one."""
        return str(self._response.headers.get("x-hearth-model", ""))

    @property
    def streams(self) -> bool:
        """Whether it is a stream of events."""
        return self._kind.startswith("text/event-stream")

    @property
    def _kind(self) -> str:
        return str(self._response.headers.get("content-type", ""))

    async def wait(self) -> None:
        """Wait for the first event of a stream, or for a whole text.

        Raises:
            MemberError: there will be no text, whatever the status.
        """
        if not self._response.is_success:
            body = await self._whole(ERROR_BYTES)
            raise MemberError(self.status, body_of(body, self.status), self._retry_after())
        if self.streams:
            await self._until_event()
        else:
            body = await self._whole(ANSWER_BYTES)
            self._check(body)
            self._held.append(body)

    async def _until_event(self) -> None:
        """Hold what arrives up to the first event with data; comments do not count."""
        events = EventReader(ERROR_BYTES)
        held = 0
        async for piece in self._rest():
            self._held.append(piece)
            held += len(piece)
            for event in events.feed(piece):
                if problem := error_in(event):
                    raise self._failed(problem)
                if isinstance(event, dict):
                    return
            if held > ANSWER_BYTES:
                break
        raise unusable(self._member)

    def _check(self, body: bytes) -> None:
        """Check a whole answer: JSON has a text and no error, and plain text is no HTML page."""
        content = _json(body)
        if isinstance(content, dict) and content.get("error"):
            error = content["error"]
            raise self._failed(error if isinstance(error, dict) else {"message": str(error)})
        if self._plain and not self._kind.startswith("text/html") and _is_text(body):
            return
        if not (isinstance(content, dict) and isinstance(content.get("text"), str)):
            raise unusable(self._member)

    def _failed(self, problem: dict[str, Any]) -> MemberError:
        return cleaned(self._member, status_of(problem), shaped(problem, 502))

    def whole(self) -> bytes:
        """Return the whole body."""
        return b"".join(self._held)

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield the body; raises MemberError when it is interrupted."""
        held, self._held = self._held, []
        end = _StreamEnd()
        for piece in held:
            end.read(piece)
            yield piece
        async for piece in self._rest():
            end.read(piece)
            yield piece
        if not end.reached:
            raise interrupted(self._member)

    async def _whole(self, most: int) -> bytes:
        body = bytearray()
        async for piece in self._rest():
            body += piece
            if len(body) > most:
                message = f"{self._member} answered more than {most} bytes"
                raise member_error(502, message, "bad_gateway")
        return bytes(body)

    async def _rest(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces:
                yield piece
        except httpx.HTTPError:
            message = f"{self._member} broke off in the middle of its answer"
            raise member_error(502, message, INTERRUPTED) from None

    def _retry_after(self) -> int | None:
        seconds = self._response.headers.get("retry-after", "")
        return int(seconds) if seconds.isdecimal() and len(seconds) < 5 else None


class _StreamEnd:
    """Watches a stream: a server that names its pieces names the end, too."""

    def __init__(self) -> None:
        self._events = EventReader(_EVENT_BYTES)
        self.reached = True

    def read(self, piece: bytes) -> None:
        """Read the next piece."""
        for event in self._events.feed(piece):
            kind = str(event.get("type", "")) if isinstance(event, dict) else ""
            if kind.endswith(".delta"):
                self.reached = False
            elif kind.endswith(".done") or kind == "error":
                self.reached = True


class Relay:
    """Sends recordings to servers; one pool of connections for all of them."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def send(
        self, path: str, upload: Upload, name: Name, member: str, *, last: bool
    ) -> AsyncIterator[Reply]:
        """Send the recording to `member`; leaving the block ends its work.

        Raises:
            MemberError: it cannot be reached, refuses, or does not answer in time.
        """
        server = name.servers[member]
        bounded = upload.streams or _has_alternative(name, server, last)
        limit_s = name.first_token_timeout_s if bounded else None
        response: httpx.Response | None = None
        try:
            async with asyncio.timeout(limit_s):
                response = await self._send(path, upload, server, member)
                reply = Reply(member, response, upload.plain)
                await reply.wait()
        except TimeoutError:
            await _close(response)
            message = f"{member} gave no answer within {name.first_token_timeout_s:g} s"
            raise member_error(504, message, "member_timeout") from None
        except BaseException:
            await _close(response)
            raise
        try:
            yield reply
        finally:
            await _close(response)

    async def _send(self, path: str, upload: Upload, server: Server, member: str) -> httpx.Response:
        if self._client is None:
            limit = httpx.Timeout(None, connect=CONNECT_S, write=STALL_S)
            self._client = httpx.AsyncClient(timeout=limit, trust_env=False)
        # Secrets are variables of this process alone, as for LiteLLM.
        key = os.environ.get(server.key, "") if server.key else ""
        headers = {"accept-encoding": "identity", **upload.headers(server.id)}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        request = self._client.build_request(
            "POST", server.url + path, headers=headers, content=upload.body(server.id)
        )
        try:
            return await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            message = f"{member} cannot be reached ({type(error).__name__})"
            raise member_error(502, message, "unreachable") from None


async def _close(response: httpx.Response | None) -> None:
    if response is not None:
        await response.aclose()


def _has_alternative(name: Name, server: Server, last: bool) -> bool:
    """Return whether another server could be faster; the same one would only start again."""
    return not last and any(other.url != server.url for other in name.servers.values())


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _is_text(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False

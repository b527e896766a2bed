"""The way to who turns speech into text: past LiteLLM, which would hold whole recordings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hearth_gateway import said, wire, words
from hearth_gateway.call import Refused
from hearth_gateway.settings import Name, Server
from hearth_gateway.upload import Upload

# A server of the house is there or it is not; its own line of waiting begins behind this.
CONNECT_S = 5.0
# One that takes nothing more of the recording for so long will not take the rest.
STALL_S = 60.0
# The words of a day, with the time of each.
ANSWER_BYTES = 64 * 1024 * 1024
ERROR_BYTES = 64 * 1024
_PASSED = ("content-type", "cache-control", "retry-after")


class Reply:
    """What one server answers: the headers now, the body as it comes."""

    def __init__(self, member: str, response: httpx.Response, plain: bool = False) -> None:
        """Read the answer of `member`; `plain` is text that is no JSON."""
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
    def streams(self) -> bool:
        """Whether it is a stream of events."""
        return self._kind.startswith("text/event-stream")

    @property
    def _kind(self) -> str:
        return str(self._response.headers.get("content-type", ""))

    async def begin(self) -> None:
        """Wait for the first words of a stream, or for all of a text that is none.

        Raises:
            Refused: there is no text to come, whatever the status says.
        """
        if not self._response.is_success:
            body = await self._whole(ERROR_BYTES)
            raise Refused(self.status, wire.error_of(body, self.status), self._retry_after())
        if self.streams:
            await self._until_words()
        else:
            body = await self._whole(ANSWER_BYTES)
            said.check_whole(self._member, body, self._kind, self._plain)
            self._held.append(body)

    async def _until_words(self) -> None:
        """Hold what comes until an event says something; remarks and what is no event do not."""
        events = wire.Events(ERROR_BYTES)
        held = 0
        async for piece in self._rest():
            self._held.append(piece)
            held += len(piece)
            for event in events.feed(piece):
                if problem := wire.stream_error(event):
                    body = words.plainly(self._member, wire.shaped(problem, 502))
                    raise Refused(wire.status_of(problem), body)
                if isinstance(event, dict):
                    return
            if held > ANSWER_BYTES:
                break
        raise said.unusable(self._member)

    def whole(self) -> bytes:
        """Return the whole answer."""
        return b"".join(self._held)

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield what was held, then what follows; what breaks off is no whole text."""
        held, self._held = self._held, []
        ending = said.Ending(self._member)
        for piece in held:
            ending.see(piece)
            yield piece
        async for piece in self._rest():
            ending.see(piece)
            yield piece
        ending.check()

    async def _whole(self, most: int) -> bytes:
        body = bytearray()
        async for piece in self._rest():
            body += piece
            if len(body) > most:
                text = f"{self._member} answered more than {most} bytes"
                raise Refused(502, wire.error(502, text, "bad_gateway"))
        return bytes(body)

    async def _rest(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces:
                yield piece
        except httpx.HTTPError:
            text = f"{self._member} broke off in the middle of its answer"
            raise Refused(502, wire.error(502, text, "broken_off")) from None

    def _retry_after(self) -> int | None:
        said = self._response.headers.get("retry-after", "")
        return int(said) if said.isdecimal() and len(said) < 5 else None


class Relay:
    """Passes recordings on; one pool of connections for all of them."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def ask(
        self, path: str, upload: Upload, name: Name, member: str, *, last: bool
    ) -> AsyncIterator[Reply]:
        """Send the recording to `member`; leaving the block ends its work.

        Raises:
            Refused: it cannot be reached, refuses, or says nothing for too long.
        """
        server = name.servers[member]
        limit_s = (
            name.first_token_timeout_s if upload.streams or _hurries(name, server, last) else None
        )
        response: httpx.Response | None = None
        try:
            async with asyncio.timeout(limit_s):
                response = await self._send(path, upload, server, member)
                reply = Reply(member, response, upload.plain)
                await reply.begin()
        except TimeoutError:
            await _close(response)
            text = f"{member} gave no answer within {name.first_token_timeout_s:g} s"
            raise Refused(504, wire.error(504, text, "member_timeout")) from None
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
        # LiteLLM's secrets, and so these, are variables of this process alone.
        key = os.environ.get(server.key, "") if server.key else ""
        headers = {"accept-encoding": "identity", **upload.headers(server.id)}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        request = self._client.build_request(
            "POST", server.url + path, headers=headers, content=upload.body(server.id)
        )
        try:
            return await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            text = f"{member} cannot be asked ({type(error).__name__})"
            raise Refused(502, wire.error(502, text, "unreachable")) from None


async def _close(response: httpx.Response | None) -> None:
    if response is not None:
        await response.aclose()


def _hurries(name: Name, server: Server, last: bool) -> bool:
    """Whether another server could be quicker; the same one would only begin anew."""
    return not last and any(other.url != server.url for other in name.servers.values())

"""One rendering of the page for all who have it open, and nothing that piles up for slow ones."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

TICK_S = 1.0
# Proxies and browsers learn by it that the connection lives; the page is not live after two.
BEAT_S = 10.0
# A reader that takes nothing for this long is dropped; it gets the whole state when it comes back.
SEND_S = 10.0
MOST_OPEN = 200
# Then the browser connects again, and the login decides again.
LIFE_S = 600.0

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class Live:
    """The page's sections as they are now, and everyone who waits for the next change."""

    def __init__(
        self, render: Callable[[], Mapping[str, str]], ends: Callable[[], bool] = lambda: False
    ) -> None:
        self._render, self._ends = render, ends
        self._sections: dict[str, tuple[int, str]] = {}
        self._version = 0
        self._events: dict[int, bytes] = {}
        self._changed = asyncio.Event()
        self._open = 0
        self._ticker: asyncio.Task[None] | None = None

    @property
    def open_pages(self) -> int:
        """How many pages are open."""
        return self._open

    def sections(self) -> dict[str, str]:
        """Return every section, rendered now where something has changed."""
        found = self._render()
        new = {k: text for k, text in found.items() if self._sections.get(k, (0, None))[1] != text}
        if new:
            self._version += 1
            self._sections |= {name: (self._version, text) for name, text in new.items()}
            self._events.clear()
            self._changed.set()
            self._changed = asyncio.Event()
        return {name: text for name, (_, text) in self._sections.items()}

    def event(self, since: int) -> bytes:
        """Return what changed after a version as one event, made once for all who need it."""
        if since not in self._events:
            new = {name: text for name, (at, text) in self._sections.items() if at > since}
            data = json.dumps(new, ensure_ascii=False)
            # JSON has no raw line end, so the data are one line.
            self._events[since] = f"event: sections\ndata: {data}\n\n".encode()
        return self._events[since]

    def respond(self) -> Response:
        """Return the stream of events for one page; 503 where too many are open."""
        if self._open >= MOST_OPEN:
            return Response(status_code=503, headers={"Retry-After": "30"})
        return _Stream(self)

    async def follow(self, send: Callable[[bytes], object]) -> None:
        """Send the whole state, then each change; nothing is stored for one reader.

        A reader that was slow gets the latest state in one event. Returns when the program ends
        or the reader has to show its login again; TimeoutError for one that takes nothing.
        """
        self._open += 1
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        try:
            self.sections()
            known, end = 0, time.monotonic() + LIFE_S
            while not self._ends() and time.monotonic() < end:
                changed, version = self._changed, self._version
                text = self.event(known) if version > known else b"event: beat\ndata:\n\n"
                async with asyncio.timeout(SEND_S):
                    await send(text)  # type: ignore[misc]
                known = version
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S):
                        await changed.wait()
        finally:
            self._open -= 1

    async def _tick(self) -> None:
        """Look for changes as long as a page is open."""
        try:
            while self._open:
                await asyncio.sleep(TICK_S)
                self.sections()
                if self._ends():
                    self._changed.set()
        finally:
            self._ticker = None


class _Stream(Response):
    """Server-sent events, until the client goes or does not read."""

    def __init__(self, live: Live) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events; returns when the client has disconnected."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

        async def chunk(text: bytes) -> None:
            await send({"type": "http.response.body", "body": text, "more_body": True})

        following = asyncio.create_task(self._live.follow(chunk))
        leaving = asyncio.create_task(_disconnected(receive))
        await asyncio.wait({following, leaving}, return_when=asyncio.FIRST_COMPLETED)
        whole = following.done() and not following.exception()
        for task in (following, leaving):
            task.cancel()
            with suppress(TimeoutError, asyncio.CancelledError):
                await task
        if whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

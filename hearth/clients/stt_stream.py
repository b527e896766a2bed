"""One talker at the live socket: speaks as fast as a person does, and stamps what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from hearth.bench import BenchError
from hearth.bench.served.server import Server
from hearth.clients.pace import paced, room
from hearth.clients.recordings import BYTES, RATE, Utterance

PATH = "/v1/audio/transcriptions/stream"
READY_S, DONE_S = 60.0, 60.0
# The voice detector may see the end of speech a little before its last loud sample.
_EARLY_S = 0.7


# Of one event: the words of half a minute are far less.
_LONGEST_BYTES = 2**20
# There is a socket at that address; any other answer says that there is none.
_REFUSED = (401, 429, 500, 502, 503, 504)


class NoSocketError(Exception):
    """There is no live socket at that address: of such a server only files are asked."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a talker talks: `lead_s` of quiet room first; `flush` presses a key at the last word."""

    lead_s: float = 0.5
    end_of_speech_ms: int = 500
    partials: bool = True
    flush: bool = False
    language: str = "en"
    wait_s: float = 60.0
    """How long after the last word the final text may come."""


@dataclass(frozen=True, slots=True)
class Event:
    """What the server said, and when: on the clock of `time.perf_counter`."""

    at_s: float
    said: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its type."""
        return str(self.said.get("type", ""))

    @property
    def utterance(self) -> object:
        """Which utterance it is about."""
        return self.said.get("utterance")


@dataclass(slots=True)
class Line:
    """An open socket with all that came from it."""

    socket: ClientConnection
    manner: Manner
    events: list[Event] = field(default_factory=list)
    error: str = ""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Stamp all that comes until the server is done or leaves."""
        try:
            async for message in self.socket:
                event = Event(time.perf_counter(), _event(message))
                self.events.append(event)
                self.news.set()
                if event.kind == "error":
                    self.error = self.error or _message(event.said)
                if event.kind == "done":
                    break
            else:
                self.error = self.error or f"it hung up ({self.socket.close_code})"
        except WebSocketException:
            self.error = self.error or f"it hung up ({self.socket.close_code})"
        except ValueError:
            self.error = self.error or "it said something that is no JSON"
        finally:
            self.done.set()
            self.news.set()

    async def send(self, what: bytes | str) -> None:
        """Send sound or an order; who has hung up says why in what it sent before."""
        try:
            await self.socket.send(what)
        except WebSocketException:
            await self.done.wait()

    async def order(self, kind: str) -> None:
        """Send an order that has a name alone."""
        if not self.done.is_set():
            await self.send(json.dumps({"type": kind}))

    async def say(self, utterance: Utterance) -> tuple[float, float]:
        """Speak in real time and wait for the final text; return when the speech ended.

        That is on the clock of `time.perf_counter`, and in seconds of the sound. The room is
        heard until the server is done with what was said: a microphone does not stop either.
        """
        lead = room(self.manner.lead_s)
        end_s = len(lead) / BYTES / RATE + utterance.seconds
        started = time.perf_counter()
        sound = lead + utterance.pcm
        async for at, chunk in paced(sound, started):
            if self.done.is_set():
                return started + end_s, end_s
            await self.send(chunk)
            if self.manner.flush and at == len(sound):
                await self.order("flush")
            if self.complete(end_s) or at > len(sound) + self.manner.wait_s * RATE * BYTES:
                break
        return started + end_s, end_s

    def complete(self, end_s: float) -> bool:
        """Say whether the text of what ended at `end_s` of the sound is there."""
        return self.final(end_s) is not None

    def final(self, end_s: float) -> Event | None:
        """Return the text of what ended at `end_s` of the sound, not of what came after it."""
        for event in self.events:
            if event.kind == "speech_ended" and _number(event.said, "at_s") >= end_s - _EARLY_S:
                texts = (e for e in self.events if e.kind == "final")
                return next((e for e in texts if e.utterance == event.utterance), None)
        return None

    async def end(self) -> None:
        """Say that nothing more comes, and wait until the server is done."""
        await self.order("end")
        await self.done.wait()


@contextlib.asynccontextmanager
async def line(server: Server, manner: Manner, within_s: float) -> AsyncIterator[Line]:
    """Open a socket, say how it will be talked to, and yield it when the server is ready.

    Raises:
        NoSocketError: there is none.
        BenchError: it broke, refused, or took longer than `within_s` in all.
    """
    try:
        async with asyncio.timeout(within_s), _connected(server) as socket:
            opened = Line(socket, manner)
            reading = asyncio.create_task(opened.read())
            try:
                await _ready(opened)
                yield opened
            finally:
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading
    except TimeoutError as error:
        raise BenchError(f"the socket was not done within {within_s:g} s") from error
    except (WebSocketException, OSError) as error:
        raise BenchError(f"the socket broke: {type(error).__name__}: {error}") from error


@contextlib.asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[ClientConnection]:
    url = "ws" + server.url.removeprefix("http").rstrip("/") + PATH
    try:
        socket = await connect(
            url, additional_headers=server.headers, proxy=None, max_size=_LONGEST_BYTES
        )
    except InvalidStatus as error:
        if error.response.status_code in _REFUSED:
            raise BenchError(f"the socket is refused: {error}") from error
        raise NoSocketError(str(error)) from error
    async with socket:
        yield socket


async def _ready(opened: Line) -> None:
    start = {
        "type": "start",
        "sample_rate": RATE,
        "language": opened.manner.language,
        "end_of_speech_ms": opened.manner.end_of_speech_ms,
        "partials": opened.manner.partials,
    }
    await opened.send(json.dumps(start))
    async with asyncio.timeout(READY_S):
        while not any(event.kind == "ready" for event in opened.events):
            if opened.done.is_set() or opened.error:
                raise BenchError(opened.error or "it was done before it was ready")
            opened.news.clear()
            await opened.news.wait()


def _event(message: str | bytes) -> dict[str, Any]:
    said = json.loads(message)
    if not isinstance(said, dict):
        raise ValueError("no event")
    return said


def _message(said: dict[str, Any]) -> str:
    error = said.get("error")
    text = error.get("message") if isinstance(error, dict) else error or said.get("message")
    return " ".join(str(text or "an error without words").split())[:200]


def _number(said: dict[str, Any], name: str) -> float:
    value = said.get(name)
    return float(value) if isinstance(value, int | float) else 0.0

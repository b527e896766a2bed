"""The STT stream client: sends speech as a microphone does, and timestamps what comes back."""

import asyncio
import contextlib
import json
import math
import random
import time
from array import array
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus, WebSocketException

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.recordings import BYTES, RATE, Utterance
from hearth.clients.websocket import connection

PATH = "/v1/audio/transcriptions/stream"
CHUNK_S = 0.02
"""A browser's microphone delivers so much at a time; no time is measured more exactly."""
_SIZE = round(CHUNK_S * RATE) * BYTES
# The loudest sample of background noise: about -72 dBFS.
_LOUDEST = 8
_READY_S = 60.0
# The voice detector may see the end of speech a little before its last loud sample.
_EARLY_S = 0.7
# One event: the words of half a minute need far less.
_MAX_EVENT_BYTES = 2**20
# There is a WebSocket at that address; any other status means that there is none.
_REFUSED = (401, 429, 500, 502, 503, 504)


class NoStreamError(Exception):
    """The server has no WebSocket for streams; it takes only files."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a speaker uses a stream: `lead_s` of noise first; `flush` right after the last word."""

    lead_s: float = 0.5
    end_of_speech_ms: int = 500
    partials: bool = True
    flush: bool = False
    language: str | None = "en"
    wait_s: float = 60.0
    """How long after the last word the final text may arrive."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of the server, with the time of its arrival by `time.perf_counter`."""

    at_s: float
    payload: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its type."""
        return str(self.payload.get("type", ""))

    @property
    def utterance(self) -> object:
        """The number of the utterance that it belongs to."""
        return self.payload.get("utterance")


def background_noise(seconds: float) -> bytes:
    """Return the noise of a quiet room, the same each time."""
    draw = random.Random(7)  # noqa: S311 - noise
    return array(
        "h", (draw.randint(-_LOUDEST, _LOUDEST) for _ in range(round(seconds * RATE)))
    ).tobytes()


async def in_real_time(sound: bytes, started: float) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the sound and then endless noise, each chunk when its last sample has been recorded.

    Each chunk comes with the number of bytes up to its end. `started` is by `time.perf_counter`;
    a late caller gets the next chunk at once.
    """
    noise = background_noise(1.0)
    at = 0
    while True:
        # The sound ends with a chunk of its own, so that its last word is delivered at once.
        chunk = sound[at : at + _SIZE] if at < len(sound) else noise[at % len(noise) :][:_SIZE]
        at += len(chunk)
        await asyncio.sleep(started + at / BYTES / RATE - time.perf_counter())
        yield at, chunk


@dataclass(slots=True)
class Stream:
    """An open stream with all events that arrived."""

    socket: ClientConnection
    options: StreamOptions
    events: list[StreamEvent] = field(default_factory=list)
    error: str = ""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    started: float = 0.0
    """When `transcribe` sent its first sound, by `time.perf_counter`."""
    audio_s: float = 0.0
    """How much sound it sent."""

    def of(self, kind: str) -> list[StreamEvent]:
        """Return the events of one type."""
        return [event for event in self.events if event.kind == kind]

    async def read(self) -> None:
        """Timestamp all events until the server is done or disconnects."""
        try:
            with contextlib.suppress(WebSocketException):
                async for message in self.socket:
                    payload = json.loads(message)
                    if not isinstance(payload, dict):
                        raise ValueError("no event")
                    self.events.append(event := StreamEvent(time.perf_counter(), payload))
                    self.news.set()
                    if event.kind == "error":
                        self.error = self.error or _error_text(payload)
                    if event.kind == "done":
                        return
            why = ": ".join(filter(None, (str(self.socket.close_code), self.socket.close_reason)))
            self.error = self.error or f"it closed the connection ({why})"
        except ValueError:
            self.error = self.error or "it sent something that is not a JSON object"
        finally:
            self.done.set()
            self.news.set()

    async def send(self, message: bytes | str) -> None:
        """Send sound or a command; a server that hung up has sent the reason before."""
        try:
            await self.socket.send(message)
        except WebSocketException:
            await self.done.wait()

    async def command(self, kind: str) -> None:
        """Send a command that consists of its name only."""
        if not self.done.is_set():
            await self.send(json.dumps({"type": kind}))

    async def speak(self, utterance: Utterance) -> tuple[float, float]:
        """Speak in real time and wait for the final text; return when the speech ended.

        Both by `time.perf_counter` and in seconds of the sound. Noise follows until the text is
        there: a microphone does not stop either.
        """
        lead = background_noise(self.options.lead_s)
        end_s = len(lead) / BYTES / RATE + utterance.seconds
        started = time.perf_counter()
        sound = lead + utterance.pcm
        async for at, chunk in in_real_time(sound, started):
            if self.done.is_set():
                break
            await self.send(chunk)
            if self.options.flush and at == len(sound):
                await self.command("flush")
            late = at > len(sound) + self.options.wait_s * RATE * BYTES
            if late or self.final(end_s) is not None:
                break
        return started + end_s, end_s

    def final(self, end_s: float) -> StreamEvent | None:
        """Return the text of the speech that ended at `end_s` of the sound, not of any after it."""
        for event in self.of("speech_ended"):
            ended_at = event.payload.get("at_s")
            if isinstance(ended_at, int | float) and ended_at >= end_s - _EARLY_S:
                return next((e for e in self.of("final") if e.utterance == event.utterance), None)
        return None

    async def end(self) -> None:
        """Announce the end of the sound, and wait until the server is done."""
        await self.command("end")
        await self.done.wait()


@contextlib.asynccontextmanager
async def connected(
    endpoint: Endpoint, options: StreamOptions, within_s: float
) -> AsyncIterator[Stream]:
    """Open a stream and yield it when the server is ready; NoStreamError without a WebSocket."""
    try:
        opening = connection(endpoint, PATH, max_size=_MAX_EVENT_BYTES)
        async with asyncio.timeout(within_s), opening as socket:
            stream = Stream(socket, options)
            reading = asyncio.create_task(stream.read())
            try:
                await _ready(stream)
                yield stream
            finally:
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading
    except InvalidStatus as error:
        if error.response.status_code in _REFUSED:
            raise ClientError(f"the WebSocket was rejected: {error}") from error
        raise NoStreamError(str(error)) from error
    except TimeoutError as error:
        raise ClientError(f"the stream did not end within {within_s:g} s") from error
    except (WebSocketException, OSError) as error:
        raise ClientError(f"the connection broke: {type(error).__name__}: {error}") from error


async def _ready(stream: Stream) -> None:
    start = {
        "type": "start",
        "sample_rate": RATE,
        "language": stream.options.language,
        "end_of_speech_ms": stream.options.end_of_speech_ms,
        "partials": stream.options.partials,
    }
    await stream.send(json.dumps(start))
    async with asyncio.timeout(_READY_S):
        while not stream.of("ready"):
            if stream.done.is_set() or stream.error:
                raise ClientError(stream.error or "it sent `done` before `ready`")
            stream.news.clear()
            await stream.news.wait()


def _error_text(payload: dict[str, Any]) -> str:
    error = payload.get("error")
    text = error.get("message") if isinstance(error, dict) else error or payload.get("message")
    return one_line(text or "an error without a message")


def transcribe(
    endpoint: Endpoint,
    pcm: bytes,
    within_s: float,
    *,
    after_s: float = 1.5,
    real_time: bool = True,
) -> Stream:
    """Send 16-bit mono at 16 kHz and then `after_s` of noise; return the stream with its events.

    Without `real_time` it is sent as fast as the server takes it.
    """
    sound = pcm + background_noise(after_s)

    async def send() -> Stream:
        async with connected(endpoint, StreamOptions(language=None), within_s) as stream:
            stream.started, stream.audio_s = time.perf_counter(), len(sound) / BYTES / RATE
            started = stream.started if real_time else -math.inf
            async for at, chunk in in_real_time(sound, started):
                await stream.send(chunk)
                if at >= len(sound) or stream.done.is_set():
                    break
            await stream.end()
        return stream

    stream = asyncio.run(send())
    if stream.error:
        raise ClientError(stream.error)
    return stream

"""A client of the voice server: speaks in real time, and notes when each event arrived."""

import asyncio
import base64
import contextlib
import json
import time
import wave
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus, WebSocketException

from hearth.catalogue.house import House, Site
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.sound import Chunk
from hearth.clients.stt import StreamEvent
from hearth.clients.websocket import connection

PATH = "/v1/realtime"
RATE = 24_000
"""Samples per second in both directions: 16 bit, mono."""
STARTED = "input_audio_buffer.speech_started"
STOPPED = "input_audio_buffer.speech_stopped"
WORDS = "conversation.item.input_audio_transcription.completed"
SOUND = "response.output_audio.delta"
TURN = "hearth.turn"
TOO_MANY = "too_many_calls"
_STEP = RATE // 50
_EVENT_BYTES = 2**20
SESSION = {"type": "realtime", "audio": {"input": {"transcription": {"model": "whisper-1"}}}}
# Longer recordings are no questions.
_LONGEST_S = 60


class TooManyCallsError(ClientError):
    """The server answers as many calls as it may."""


@dataclass(slots=True)
class Turn:
    """A question and its answer."""

    question: str = ""
    answer: str = ""
    sound: bytearray = field(default_factory=bytearray)
    stages: dict[str, Any] = field(default_factory=dict)
    """The server's own times in milliseconds from the end of the question: start and end."""
    is_early: bool = False
    """Whether the answer was started before the question was known to be over."""

    @property
    def waits_ms(self) -> float:
        """From the end of the question to the first sound of the answer."""
        start, end = self.stages["total"]
        return float(end - start)

    @property
    def lengths_ms(self) -> dict[str, float]:
        """How long each stage took by itself."""
        return {name: pair[1] - pair[0] for name, pair in self.stages.items() if name != "total"}


@dataclass(slots=True)
class Call:
    """An open call: its microphone never stops, and all events stay in their order."""

    socket: ClientConnection
    name: str
    events: list[StreamEvent] = field(default_factory=list)
    closed: str = ""
    """Why no event follows."""
    _sound: bytearray = field(default_factory=bytearray)
    _said_s: float = 0.0
    _silent: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, sound: bytes) -> None:
        """Speak this sound after what is being said; 16-bit mono PCM at 24 kHz."""
        self._sound += sound
        self._silent.clear()

    async def said(self) -> float:
        """Wait until everything was said; return when the last of it was, by `perf_counter`."""
        await self._silent.wait()
        return self._said_s

    async def send(self, kind: str, **fields: Any) -> None:
        """Send an event; a server that hung up has sent the reason before."""
        with contextlib.suppress(WebSocketException):
            await self.socket.send(json.dumps({"type": kind, **fields}))

    def of(self, *kinds: str) -> list[StreamEvent]:
        """Return the events of these types."""
        return [event for event in self.events if event.kind in kinds]

    def sound_since(self, moment: float) -> list[Chunk]:
        """Return the sound that arrived after a moment, with the seconds since then."""
        return [
            Chunk(event.at_s - moment, base64.b64decode(event.payload["delta"]))
            for event in self.of(SOUND)
            if event.at_s >= moment
        ]

    async def event(self, *kinds: str, within_s: float, count: int = 1) -> StreamEvent:
        """Wait for the event number `count` of these types; raises ClientError where none comes."""
        try:
            async with asyncio.timeout(within_s):
                while len(found := self.of(*kinds)) < count:
                    if self.closed:
                        raise ClientError(self.closed)
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise ClientError(f"{self.name}: no {kinds[0]} within {within_s:g} s") from None
        return found[count - 1]

    async def talk(self) -> None:
        """Send what is said, and silence, at the pace of a clock."""
        started, at = time.perf_counter(), 0
        while True:
            part = bytes(self._sound[: 2 * _STEP])
            del self._sound[: 2 * _STEP]
            at += _STEP
            # A chunk is there when its last sample was recorded.
            await asyncio.sleep(started + at / RATE - time.perf_counter())
            audio = base64.b64encode(part.ljust(2 * _STEP, b"\0")).decode()
            await self.send("input_audio_buffer.append", audio=audio)
            if part and not self._sound:
                self._said_s = time.perf_counter()
                self._silent.set()

    async def read(self) -> None:
        """Note all events; one that is an error, or a failed answer, ends the call."""
        try:
            async for message in self.socket:
                event = StreamEvent(time.perf_counter(), json.loads(message))
                self.events.append(event)
                if problem := _problem(event.payload):
                    self.closed = problem
                self._news.set()
        except WebSocketException as error:
            self.closed = self.closed or f"the call broke off: {type(error).__name__}"
        finally:
            ended = f"the call ended without an answer ({self.socket.close_code})"
            self.closed = self.closed or ended
            self._news.set()


def _problem(event: dict[str, Any]) -> str:
    if event["type"] == "error":
        return one_line(event["error"]["message"])
    if event["type"] == "response.done" and event["response"]["status"] == "failed":
        return one_line(event["response"]["status_details"]["error"]["message"])
    return ""


@contextlib.asynccontextmanager
async def calling(
    endpoint: Endpoint,
    within_s: float,
    session: dict[str, Any] | None = None,
    *,
    speculates: bool = True,
    silent: bool = False,
) -> AsyncIterator[Call]:
    """Open a call for the block; raises ClientError, also where the block takes too long.

    `speculates` allows the server to start on an early text; a `silent` call has no microphone.
    Raises TooManyCallsError where the server answers no more calls.
    """
    query = f"{PATH}?model=voice&figures=true" + ("" if speculates else "&speculate=false")
    try:
        opening = connection(endpoint, query, max_size=_EVENT_BYTES)
        async with asyncio.timeout(within_s), opening as socket:
            call = Call(socket, endpoint.name)
            tasks = [asyncio.create_task(call.read())]
            try:
                first = await call.event("session.created", "error", within_s=within_s)
                if first.payload.get("error", {}).get("code") == TOO_MANY:
                    raise TooManyCallsError(call.closed)
                await call.send("session.update", session=session or SESSION)
                await call.event("session.updated", within_s=within_s)
                tasks += [] if silent else [asyncio.create_task(call.talk())]
                yield call
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    except InvalidStatus as error:
        raise ClientError(f"{endpoint.name}{PATH}: HTTP {error.response.status_code}") from error
    except TimeoutError as error:
        raise ClientError(f"{endpoint.name}: no answer within {within_s:g} s") from error
    except (WebSocketException, OSError) as error:
        raise ClientError(f"the call broke off: {type(error).__name__}") from error


def site_for_calls(house: House) -> Site:
    """Return the name under which programs call; ClientError where no service answers calls."""
    for service in house.offering("calls"):
        for site in service.sites:
            if site.auth == "key":
                return site
    raise ClientError(
        "nobody answers calls in this house: write `voice: {enabled: true}` under `services:` of "
        "inventory/local/services.yml, then run `hearth up`"
    )


def read_wav(path: Path) -> bytes:
    """Return a recording as 16-bit mono PCM at 24 kHz; ClientError for any other kind of file."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            samples = array("h", file.readframes(_LONGEST_S * rate)) if width == 2 else array("h")
    except (OSError, EOFError, wave.Error, ValueError) as error:
        raise ClientError(f"{path}: cannot be read as a WAV file: {one_line(error)}") from None
    if not samples:
        raise ClientError(f"{path}: has no 16-bit sound; record it with: arecord -f S16_LE {path}")
    return at_24_khz(samples[::channels], rate)


def at_24_khz(samples: Sequence[int], rate: int) -> bytes:
    """Return samples at another rate, by linear interpolation."""
    if not samples:
        return b""
    result = array("h")
    for index in range(len(samples) * RATE // rate):
        at, part = divmod(index * rate, RATE)
        after = samples[min(at + 1, len(samples) - 1)]
        result.append(round(samples[at] + (after - samples[at]) * part / RATE))
    return result.tobytes()


def ask(endpoint: Endpoint, sound: bytes, within_s: float) -> Turn:
    """Speak a question (16-bit mono PCM at 24 kHz) and return its answer; raises ClientError."""
    return asyncio.run(_ask(endpoint, sound, within_s))


async def _ask(endpoint: Endpoint, sound: bytes, within_s: float) -> Turn:
    async with calling(endpoint, within_s) as call:
        call.say(sound)
        return await answered(call, within_s)


async def answered(call: Call, within_s: float, count: int = 1) -> Turn:
    """Wait for the answer number `count` of a call and return it with its question."""
    heard = await call.event(WORDS, within_s=within_s, count=count)
    if not heard.payload["transcript"]:
        raise ClientError("no words were recognised in the question")
    done = await call.event(TURN, within_s=within_s, count=count)
    spoken = [one for one in call.events if heard.at_s <= one.at_s <= done.at_s]
    said = "response.output_audio_transcript.delta"
    return Turn(
        question=heard.payload["transcript"],
        answer="".join(one.payload["delta"] for one in spoken if one.kind == said),
        sound=bytearray(b"".join(chunk.pcm for chunk in call.sound_since(heard.at_s))),
        stages=done.payload["stages"],
        is_early=done.payload["speculated"],
    )

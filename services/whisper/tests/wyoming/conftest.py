"""Satellites on a real socket, with a scripted scheduler."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from wyoming.asr import Transcribe
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable

from hearth_serving.errors import ServiceError
from hearth_whisper.limits import SatelliteLimits
from hearth_whisper.recognition import SAMPLE_RATE, Options, Samples, Segment
from hearth_whisper.recognition.queues import FinalRequest
from hearth_whisper.recognition.transcription import Transcript
from hearth_whisper.wyoming.server import SatelliteServer, start_server

from ..live.scripted import ScriptedVad

# After our own module, which silences a warning of wyoming.audio on an older Python.
from wyoming.audio import AudioChunk, AudioStart, AudioStop  # isort: skip

WITHIN_S = 5.0


@dataclass
class ScriptedScheduler:
    """Returns the next of `texts` for each utterance; waits while `gate` is closed."""

    texts: list[str] = field(default_factory=list)
    language: str = "en"
    error: Exception | None = None
    described: dict[str, Any] = field(
        default_factory=lambda: {"model": "small", "multilingual": True}
    )
    finals: list[tuple[Samples, Options]] = field(default_factory=list)
    cancelled: int = 0
    preloads: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def preload(self) -> None:
        self.preloads += 1

    def check(self, options: Options) -> None:
        if self.described.get("multilingual") is False and options.language not in (None, "en"):
            raise ServiceError("it supports English only", code="unsupported_language")

    async def transcribe_final(
        self,
        samples: Samples,
        options: Options,
        cancelled_event: threading.Event,
        request: FinalRequest | None = None,
    ) -> Transcript:
        self.finals.append((samples, options))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error:
            raise self.error
        text = self.texts.pop(0) if self.texts else "Yes."
        return Transcript((Segment(0, 1, f" {text}"),), self.language, 1.0, 1.0, 0.1)

    async def transcribe_partial(self, samples: Samples, options: Options) -> Transcript | None:
        raise AssertionError("satellites have no partial results")

    def describe(self) -> dict[str, Any]:
        return self.described


@dataclass
class Server:
    """A running server, and what it reported."""

    satellites: SatelliteServer
    scheduler: ScriptedScheduler
    outcomes: list[str]
    latencies: list[float] = field(default_factory=list)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.002)


class SatelliteClient:
    """One satellite, with the protocol's own client."""

    def __init__(self, client: AsyncTcpClient) -> None:
        self._client = client

    async def send(self, *events: Eventable) -> None:
        for one in events:
            await self._client.write_event(one.event())

    async def send_recording(
        self, pcm: bytes, *, stop: bool = True, rate: int = SAMPLE_RATE
    ) -> None:
        """Send a recording like Home Assistant: in chunks of 64 ms."""
        await self.send(Transcribe(language="en"), AudioStart(rate, 2, 1))
        for at in range(0, len(pcm), 2048):
            await self.send(AudioChunk(rate, 2, 1, pcm[at : at + 2048]))
        if stop:
            await self.send(AudioStop())

    async def receive(self) -> Event:
        event = await asyncio.wait_for(self._client.read_event(), WITHIN_S)
        assert event is not None, "the server closed the connection"
        return event

    async def until(self, kind: str) -> list[Event]:
        """Return all events up to one of this kind."""
        events = [await self.receive()]
        while events[-1].type != kind:
            events.append(await self.receive())
        return events

    async def refused(self) -> Error:
        """Return the error after which the server closed the connection."""
        error = Error.from_event((await self.until("error"))[-1])
        await self.closed()
        return error

    async def closed(self) -> None:
        assert await asyncio.wait_for(self._client.read_event(), WITHIN_S) is None


OpenServer = Callable[..., AbstractAsyncContextManager[Server]]
ConnectSatellite = Callable[..., AbstractAsyncContextManager[SatelliteClient]]


@pytest.fixture
def open_server() -> OpenServer:
    """Start a server with these limits."""

    @asynccontextmanager
    async def opened(
        scheduler: ScriptedScheduler | None = None,
        open_vad: Callable[[], Any] | None = None,
        **limits: Any,
    ) -> AsyncIterator[Server]:
        scheduler, outcomes, latencies = (
            scheduler or ScriptedScheduler(),
            list[str](),
            list[float](),
        )
        satellites = await start_server(
            scheduler,
            "127.0.0.1",
            0,
            SatelliteLimits(**limits),
            open_vad=open_vad or _open_vad,
            on_end=outcomes.append,
            on_latency=latencies.append,
        )
        try:
            yield Server(satellites, scheduler, outcomes, latencies)
        finally:
            await satellites.close()

    return opened


@pytest.fixture
async def server(open_server: OpenServer) -> AsyncIterator[Server]:
    async with open_server() as opened:
        yield opened


@pytest.fixture
def connect_satellite() -> ConnectSatellite:
    """Connect to a server."""

    @asynccontextmanager
    async def connected(server: Server) -> AsyncIterator[SatelliteClient]:
        async with AsyncTcpClient("127.0.0.1", server.satellites.port) as client:
            yield SatelliteClient(client)

    return connected


async def _open_vad() -> ScriptedVad:
    return ScriptedVad()


def silence(seconds: float) -> bytes:
    return bytes(2 * round(seconds * SAMPLE_RATE))


def tone(seconds: float, rate: int = SAMPLE_RATE, hertz: float = 440.0) -> bytes:
    """Return a tone of half the highest level, as 16-bit PCM."""
    wave = np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    return (wave * 16_384).astype("<i2").tobytes()

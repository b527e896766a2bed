"""Satellites on a real socket, and work that does as it is told."""

import asyncio
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
from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Segment, Stop
from hearth_whisper.recognising.finals import Claim
from hearth_whisper.recognising.work import WholeText
from hearth_whisper.wyoming import SatelliteLimits, Satellites, start

from ..live.scripted import ScriptedEar

# After ours, which knows what the library's part for sound warns of on an older Python.
from wyoming.audio import AudioChunk, AudioStart, AudioStop  # isort: skip

WITHIN_S = 5.0


@dataclass
class ScriptedWork:
    """Says the next of `texts` of each utterance; while `gate` is closed, it works."""

    texts: list[str] = field(default_factory=list)
    language: str = "en"
    error: Exception | None = None
    described: dict[str, Any] = field(
        default_factory=lambda: {"model": "small", "multilingual": True}
    )
    finals: list[tuple[Samples, Options]] = field(default_factory=list)
    cancelled: int = 0
    woken: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def wake(self) -> None:
        self.woken += 1

    def check(self, options: Options) -> None:
        if self.described.get("multilingual") is False and options.language not in (None, "en"):
            raise ServiceError("it knows English only", code="unsupported_language")

    async def final(
        self, samples: Samples, options: Options, stop: Stop, claim: Claim | None = None
    ) -> WholeText:
        self.finals.append((samples, options))
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error:
            raise self.error
        text = self.texts.pop(0) if self.texts else "Yes."
        return WholeText((Segment(0, 1, f" {text}"),), self.language, 1.0, 1.0, 0.1)

    async def partial(self, samples: Samples, options: Options) -> WholeText | None:
        raise AssertionError("a satellite shows no partials")

    def describe(self) -> dict[str, Any]:
        return self.described


@dataclass
class House:
    """A port that listens for satellites."""

    satellites: Satellites
    work: ScriptedWork
    ended: list[str]
    waited: list[float] = field(default_factory=list)

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(WITHIN_S):
            while not met():  # noqa: ASYNC110 - nobody sets an event for what a test wants to see
                await asyncio.sleep(0.002)


class Caller:
    """One satellite, by the protocol's own client."""

    def __init__(self, client: AsyncTcpClient) -> None:
        self._client = client

    async def tell(self, *said: Eventable) -> None:
        for one in said:
            await self._client.write_event(one.event())

    async def say(self, pcm: bytes, *, stop: bool = True, rate: int = SAMPLE_RATE) -> None:
        """Speak as Home Assistant does: in chunks of 64 ms."""
        await self.tell(Transcribe(language="en"), AudioStart(rate, 2, 1))
        for at in range(0, len(pcm), 2048):
            await self.tell(AudioChunk(rate, 2, 1, pcm[at : at + 2048]))
        if stop:
            await self.tell(AudioStop())

    async def hear(self) -> Event:
        event = await asyncio.wait_for(self._client.read_event(), WITHIN_S)
        assert event is not None, "the server hung up"
        return event

    async def until(self, kind: str) -> list[Event]:
        """Return what came up to and with an event of this kind."""
        heard = [await self.hear()]
        while heard[-1].type != kind:
            heard.append(await self.hear())
        return heard

    async def refused(self) -> Error:
        """Return the error after which the server hung up."""
        error = Error.from_event((await self.until("error"))[-1])
        await self.hung_up()
        return error

    async def hung_up(self) -> None:
        assert await asyncio.wait_for(self._client.read_event(), WITHIN_S) is None


Opened = Callable[..., AbstractAsyncContextManager[House]]
Called = Callable[..., AbstractAsyncContextManager[Caller]]


@pytest.fixture
def open_house() -> Opened:
    """Listen for satellites with these limits."""

    @asynccontextmanager
    async def opened(
        work: ScriptedWork | None = None, ear: Callable[[], Any] | None = None, **limits: Any
    ) -> AsyncIterator[House]:
        work, ended, waited = work or ScriptedWork(), list[str](), list[float]()
        satellites = await start(
            work,
            "127.0.0.1",
            0,
            SatelliteLimits(**limits),
            ear=ear or _ear,
            ended=ended.append,
            waited=waited.append,
        )
        try:
            yield House(satellites, work, ended, waited)
        finally:
            await satellites.close()

    return opened


@pytest.fixture
async def house(open_house: Opened) -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


@pytest.fixture
def call() -> Called:
    """Connect to a house."""

    @asynccontextmanager
    async def called(house: House) -> AsyncIterator[Caller]:
        async with AsyncTcpClient("127.0.0.1", house.satellites.port) as client:
            yield Caller(client)

    return called


async def _ear() -> ScriptedEar:
    return ScriptedEar()


def silence(seconds: float) -> bytes:
    return bytes(2 * round(seconds * SAMPLE_RATE))


def tone(seconds: float, rate: int = SAMPLE_RATE, hertz: float = 440.0) -> bytes:
    """Return a tone of half the highest level, as 16-bit PCM."""
    wave = np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)
    return (wave * 16_384).astype("<i2").tobytes()

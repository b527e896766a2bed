"""A whole house around the server under test, and a client that talks with it."""

import asyncio
import base64
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))
sys.path.insert(0, str(Path(__file__).parents[2] / "whisper"))
sys.path.insert(0, str(Path(__file__).parents[2] / "kokoro"))

from hearth_voice.app import VoiceState, make_app
from hearth_voice.config import Config

from .parts import Gateway, Recogniser, Speaker, kokoro, serving, whisper
from .sounds import SPOKEN_RATE, Sound, pcm, silence

STEP_S = 0.02


@dataclass
class House:
    """The servers of a test."""

    url: str
    state: VoiceState
    recogniser: Recogniser
    speaker: Speaker
    gateway: Gateway

    @property
    def working(self) -> int:
        """How many pieces of work run for somebody."""
        return self.gateway.active + self.speaker.active

    async def until(self, met: Callable[[], bool], within_s: float = 5) -> float:
        """Wait until a condition is met; return the seconds that it took."""
        began = time.monotonic()
        while not met():
            assert time.monotonic() - began < within_s, "the condition was not met in time"
            await asyncio.sleep(0.005)
        return time.monotonic() - began


OpenHouse = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def open_house(tmp_path: Path) -> OpenHouse:
    @asynccontextmanager
    async def opened(
        recogniser: Recogniser | None = None,
        speaker: Speaker | None = None,
        gateway: Gateway | None = None,
        **more: Any,
    ) -> AsyncIterator[House]:
        recogniser, speaker = recogniser or Recogniser(), speaker or Speaker()
        gateway = gateway or Gateway()
        ears, ears_state = whisper(recogniser, tmp_path)
        mouth, mouth_state = kokoro(speaker)
        async with (
            serving(ears, ears_state) as whisper_url,
            serving(mouth, mouth_state) as kokoro_url,
            serving(gateway.app()) as litellm_url,
        ):
            config = Config(
                litellm=litellm_url,
                whisper=whisper_url,
                kokoro=kokoro_url,
                voices={"en": "af_heart", "es": "ef_dora", "fr": "ff_siwis"},
                **more,
            )
            state, app = make_app(config, "")
            async with serving(app, state) as url:
                yield House(url, state, recogniser, speaker, gateway)

    return opened


@pytest.fixture
async def house(open_house: OpenHouse) -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


@dataclass
class Caller:
    """A client of the protocol: it plays what it gets, and its microphone never stops."""

    socket: ClientConnection
    events: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    sent: int = 0
    """Samples of the microphone."""
    mixer: Callable[[int, Sound], Sound] | None = None
    """Adds to the microphone at this sample what the room adds."""
    _sound: bytearray = field(default_factory=bytearray)
    _queue: list[Sound] = field(default_factory=list)
    _silent: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def configure(self, **session: Any) -> dict[str, Any]:
        await self.send("session.update", session={"type": "realtime", **session})
        return await self.event("session.updated")

    def talk(self) -> None:
        """Switch the microphone on: silence, and what `say` queues, at the pace of a clock."""
        self._tasks.append(asyncio.create_task(self._microphone()))

    def say(self, sound: Sound) -> None:
        self._silent.clear()
        self._queue.append(sound)

    async def said(self) -> float:
        """Wait until all of it was sent; return when its last sample was."""
        await self._silent.wait()
        return time.monotonic()

    async def _microphone(self) -> None:
        step = round(STEP_S * SPOKEN_RATE)
        began, count = time.monotonic(), 0
        while True:
            part = silence(STEP_S)
            if self._queue:
                first = self._queue[0]
                part[: min(step, first.size)] = first[:step]
                self._queue[0] = first[step:]
                if not self._queue[0].size:
                    self._queue.pop(0)
            if not self._queue:
                self._silent.set()
            if self.mixer:
                part = self.mixer(self.sent, part)
            audio = base64.b64encode(pcm(part)).decode()
            await self.send("input_audio_buffer.append", audio=audio)
            self.sent += step
            count += 1
            await asyncio.sleep(max(0.0, began + count * STEP_S - time.monotonic()))

    async def read(self) -> None:
        async for message in self.socket:
            event = json.loads(message)
            if event["type"] == "response.output_audio.delta":
                self._sound += base64.b64decode(event["delta"])
            self.events.append(event)
            self.times.append(time.monotonic())

    async def event(self, kind: str, within_s: float = 10, count: int = 1) -> dict[str, Any]:
        """Wait for the n-th event of a kind."""
        began = time.monotonic()
        while len(found := self.of(kind)) < count:
            assert time.monotonic() - began < within_s, f"no {kind}; got {self.kinds[-20:]}"
            await asyncio.sleep(0.002)
        return found[count - 1]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def at(self, kind: str, count: int = 1) -> float:
        """Return when the n-th event of a kind arrived."""
        found = [t for t, e in zip(self.times, self.events, strict=True) if e["type"] == kind]
        return found[count - 1]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def has_sound(self) -> bool:
        return bool(self._sound)

    def sound(self) -> Sound:
        """Return all sound that arrived."""
        sound = np.frombuffer(bytes(self._sound), "<i2").astype(np.float32)
        return sound / np.float32(32767)

    def sound_between(self, start: int, end: int) -> Sound:
        """Return the sound between two samples, silence where there is none."""
        found = bytes(self._sound[2 * max(0, start) : 2 * max(0, end)])
        part: Sound = np.frombuffer(found, "<i2").astype(np.float32) / np.float32(32767)
        before = silence((min(end, 0) - min(start, 0)) / SPOKEN_RATE)
        after = silence((end - start - before.size - part.size) / SPOKEN_RATE)
        whole: Sound = np.concatenate([before, part, after])
        return whole


Call = Callable[..., AbstractAsyncContextManager[Caller]]


@pytest.fixture
def call() -> Call:
    @asynccontextmanager
    async def called(
        house: House, query: str = "model=voice&figures=true"
    ) -> AsyncIterator[Caller]:
        url = house.url.replace("http", "ws", 1)
        async with connect(
            f"{url}/v1/realtime?{query}", proxy=None, max_size=None, close_timeout=1
        ) as socket:
            caller = Caller(socket)
            reading = asyncio.create_task(caller.read())
            try:
                yield caller
            finally:
                for task in [*caller._tasks, reading]:
                    task.cancel()
                await asyncio.gather(*caller._tasks, reading, return_exceptions=True)

    return called

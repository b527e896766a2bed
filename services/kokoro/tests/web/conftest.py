"""The real server on a real socket, with a speaker that does as it is told."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest

from hearth_kokoro.engines import SAMPLE_RATE, Engine
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.speaking.speaker import Piece, Speaker
from hearth_kokoro.voices import Voice, Voices
from hearth_kokoro.web.app import make_app
from hearth_kokoro.web.settings import Limits
from hearth_kokoro.web.state import Loaded, ServerState
from hearth_serving.errors import ServiceError
from hearth_serving.server import listen, make_server

from .decoding import tone

NAMES = ("af_alloy", "af_heart", "af_nova", "bm_fable", "ef_dora")
PIECE_S = 0.3


@dataclass
class ScriptedSpeaker:
    """Speaks one piece of 0.3 s for each three tokens, as fast or slowly as a test wants.

    While `gate` is closed, it says no more of a text than its first piece.
    """

    piece_s: float = 0.0
    fails_after: int | None = None
    error: Exception | None = None
    active: int = 0
    stopped_early: int = 0
    spoken: list[str] = field(default_factory=list)
    closed: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def speak(
        self, feed: Feed, voice: Voice, speed: float, listener: Listener | None = None
    ) -> AsyncGenerator[Piece, None]:
        if self.error and self.fails_after is None:
            raise self.error
        self.active += 1
        ended = False
        try:
            index = 0
            while True:
                while not (tokens := feed.ready()) and not feed.is_over:
                    await feed.changed()
                if not tokens:
                    break
                if index == self.fails_after and self.error:
                    raise self.error
                await asyncio.sleep(self.piece_s)
                if index:
                    await self.gate.wait()
                text = "".join(token.source for token in feed.take(min(3, len(tokens))))
                self.spoken.append(text)
                yield Piece(index, text, tone(PIECE_S / speed))
                index += 1
            ended = True
        finally:
            self.active -= 1
            self.stopped_early += not ended

    async def close(self) -> None:
        self.closed = True

    def describe(self) -> dict[str, Any]:
        return {"active": self.active, "waiting": 0}


@dataclass
class House:
    """A running server."""

    url: str
    port: int
    desk: ServerState
    speaker: ScriptedSpeaker
    client: httpx.AsyncClient

    async def say(self, text: str = "One two three four.", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/audio/speech", json={"input": text, **fields})

    async def until(self, met: Callable[[], bool], within_s: float = 3) -> None:
        """Wait until something is so."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not met():
            assert loop.time() - began < within_s, "it never came to that"
            await asyncio.sleep(0.002)


Opened = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def open_house() -> Opened:
    """Open a house with these limits, this key and these origins."""

    @asynccontextmanager
    async def opened(
        speaker: ScriptedSpeaker | None = None,
        *,
        key: str | None = None,
        origins: tuple[str, ...] = (),
        load: Callable[[], Any] | None = None,
        **limits: Any,
    ) -> AsyncIterator[House]:
        speaker = speaker or ScriptedSpeaker()
        desk = ServerState(Limits(**limits), key, frozenset(origins))

        async def loaded() -> Loaded:
            if load:
                await load()
            return made_up(speaker)

        failures: list[BaseException] = []
        listener = listen("127.0.0.1", 0, desk.limits)
        server = make_server(make_app(desk, loaded, failures.append), desk)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client:
                house = House(url, port, desk, speaker, client)
                if not load:
                    await house.until(lambda: desk.loaded is not None)
                yield house
        finally:
            server.should_exit = True
            await task
            listener.close()

    return opened


@pytest.fixture
async def house(open_house: Opened) -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


def made_up(speaker: ScriptedSpeaker) -> Loaded:
    """Return what a loaded model offers, without one."""
    voices = Voices({name: np.zeros((510, 1, 256), np.float32) for name in NAMES})
    engine = SimpleNamespace(
        name="scripted", provider="none", model="m", model_sha256="", threads=1
    )
    return Loaded(cast(Speaker, speaker), voices, cast(Engine, engine), "a test", {})


def busy() -> ServiceError:
    return ServiceError("too many wait", status=429, code="busy", retry_after_s=3)


__all__ = ["PIECE_S", "SAMPLE_RATE", "House", "Opened", "ScriptedSpeaker", "busy"]

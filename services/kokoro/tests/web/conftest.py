"""The real server on a real socket, with a scripted synthesizer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest

from hearth_kokoro.engines import SAMPLE_RATE, Engine
from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Segment, Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voice, Voices
from hearth_kokoro.web.app import make_app
from hearth_kokoro.web.limits import Limits
from hearth_kokoro.web.state import LoadedModel, ServerState
from hearth_serving.errors import ServiceError
from hearth_serving.server import listen, make_server

from .decoding import tone

NAMES = ("af_alloy", "af_heart", "af_nova", "bm_fable", "ef_dora")
SEGMENT_S = 0.3


@dataclass
class ScriptedSynthesizer:
    """Speaks one piece of 0.3 s for each three tokens, as fast or slowly as a test wants.

    While `gate` is closed, it says no more of a text than its first piece. With `held_s` it says
    that it holds the first one back, unless it is to be early.
    """

    held_s: float = 0.0

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
        self, buffer: TextBuffer, voice: Voice, speed: float, playback: Playback | None = None
    ) -> AsyncGenerator[Segment, None]:
        if self.error and self.fails_after is None:
            raise self.error
        self.active += 1
        ended = False
        try:
            index = 0
            while True:
                while not (tokens := buffer.ready()) and not buffer.is_finished:
                    await buffer.changed()
                if not tokens:
                    break
                if index == self.fails_after and self.error:
                    raise self.error
                await asyncio.sleep(self.piece_s)
                if index:
                    await self.gate.wait()
                text = "".join(token.source for token in buffer.take(min(3, len(tokens))))
                self.spoken.append(text)
                held_s = 0.0 if index or (playback and playback.early) else self.held_s
                if held_s and playback:
                    playback.on_hold(held_s)
                    await asyncio.sleep(0.01)
                yield Segment(index, text, tone(SEGMENT_S / speed), held_s)
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
class RunningServer:
    """A running server."""

    url: str
    port: int
    state: ServerState
    synthesizer: ScriptedSynthesizer
    client: httpx.AsyncClient

    async def say(self, text: str = "One two three four.", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/audio/speech", json={"input": text, **fields})

    async def until(self, met: Callable[[], bool], within_s: float = 3) -> None:
        """Wait until the condition is met."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not met():
            assert loop.time() - began < within_s, "the condition was not met in time"
            await asyncio.sleep(0.002)


StartServer = Callable[..., AbstractAsyncContextManager[RunningServer]]


@pytest.fixture
def start_server() -> StartServer:
    """Start a server with these limits, this key, and these origins."""

    @asynccontextmanager
    async def opened(
        synthesizer: ScriptedSynthesizer | None = None,
        *,
        key: str | None = None,
        origins: tuple[str, ...] = (),
        load: Callable[[], Any] | None = None,
        state_folder: Path | None = None,
        **limits: Any,
    ) -> AsyncIterator[RunningServer]:
        synthesizer = synthesizer or ScriptedSynthesizer()
        state = ServerState(Limits(**limits), key, frozenset(origins), state_folder=state_folder)

        async def loaded() -> LoadedModel:
            if load:
                await load()
            return made_up(synthesizer)

        failures: list[BaseException] = []
        listening_socket = listen("127.0.0.1", 0, state.limits)
        uvicorn_server = make_server(make_app(state, loaded, failures.append), state)
        task = asyncio.create_task(uvicorn_server.serve(sockets=[listening_socket]))
        port = listening_socket.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client:
                server = RunningServer(url, port, state, synthesizer, client)
                if not load:
                    await server.until(lambda: state.loaded is not None)
                yield server
        finally:
            uvicorn_server.should_exit = True
            await task
            listening_socket.close()

    return opened


@pytest.fixture
async def server(start_server: StartServer) -> AsyncIterator[RunningServer]:
    async with start_server() as opened:
        yield opened


def made_up(synthesizer: ScriptedSynthesizer) -> LoadedModel:
    """Return the interface of a loaded model, without a model."""
    voices = Voices({name: np.zeros((510, 1, 256), np.float32) for name in NAMES})
    engine = SimpleNamespace(
        name="scripted", provider="none", model="m", model_sha256="", threads=1
    )
    return LoadedModel(cast(Synthesizer, synthesizer), voices, cast(Engine, engine), "a test", {})


def busy() -> ServiceError:
    return ServiceError("too many wait", status=429, code="busy", retry_after_s=3)


__all__ = [
    "SAMPLE_RATE",
    "SEGMENT_S",
    "RunningServer",
    "ScriptedSynthesizer",
    "StartServer",
    "busy",
]

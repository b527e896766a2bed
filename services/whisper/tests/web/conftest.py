"""The real server on a real socket, with a model that does as it is told."""

import asyncio
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_serving.forms import UploadSpace
from hearth_serving.server import listen, make_server
from hearth_whisper.languages import NAMES
from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Segment, Sound, Word, rules
from hearth_whisper.recognising.work import Work
from hearth_whisper.web.app import make_app
from hearth_whisper.web.settings import Limits
from hearth_whisper.web.state import ServerState

from ..audio.sounds import tone, wav

WORDS = ("Good", "morning,", "the", "kettle", "is", "on.")
SECOND = wav(tone(1.0).tobytes())


@dataclass(slots=True)
class ScriptedText:
    """Says one word per half second of sound, a segment per two seconds."""

    work: "ScriptedWork"
    blocks: Iterator[Any]
    options: Options
    language: str | None = "en"
    language_probability: float = 0.9
    audio_s: float = 0.0

    async def __aiter__(self) -> AsyncIterator[Segment]:
        words = itertools.cycle(WORDS)
        async for part in self._windows():
            await asyncio.sleep(self.work.step_s)
            await self.work.gate.wait()
            if self.work.fails_after == len(self.work.said) and self.work.error:
                raise self.work.error
            if np.abs(part).max() > 0.01:
                yield self._segment(part.size / SAMPLE_RATE, words)
            self.audio_s += part.size / SAMPLE_RATE

    async def _windows(self) -> AsyncIterator[Samples]:
        held, size = np.zeros(0, np.float32), 2 * SAMPLE_RATE
        while (block := await asyncio.to_thread(next, self.blocks, None)) is not None:
            self.work.heard.append(block)
            held = np.concatenate([held, block])
            while held.size >= size:
                yield held[:size]
                held = held[size:]
        if held.size:
            yield held

    def _segment(self, length_s: float, words: Iterator[str]) -> Segment:
        count = max(1, round(length_s * 2))
        each_s = length_s / count
        said = tuple(
            Word(self.audio_s + n * each_s, self.audio_s + (n + 1) * each_s, f" {next(words)}", 0.9)
            for n in range(count)
        )
        text = "".join(word.text for word in said)
        self.work.said.append(text)
        times = said if self.options.words else ()
        return Segment(self.audio_s, self.audio_s + length_s, text, times, -0.3, tokens=(7, 8))

    async def aclose(self) -> None:
        self.work.closed += 1


@dataclass
class ScriptedWork:
    """Stands for the model: `error` before anything, or after so many segments."""

    step_s: float = 0.0
    error: Exception | None = None
    fails_after: int | None = None
    ready: bool = True
    failure: str | None = None
    multilingual: bool = True
    model: str | None = "tiny.en"
    asked: list[Options] = field(default_factory=list)
    sounds: list[Sound] = field(default_factory=list)
    heard: list[Any] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    active: int = 0
    closed: int = 0
    ended: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def open_texts(self) -> int:
        return len(self.asked) - self.closed

    async def file(self, sound: Sound, options: Options) -> ScriptedText:
        if self.error and self.fails_after is None:
            raise self.error
        self.asked.append(options)
        self.sounds.append(sound)
        return ScriptedText(self, iter(sound), options)

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.ended = True

    def check(self, options: Options) -> None:
        if self.model:
            languages = tuple(NAMES) if self.multilingual else ("en",)
            rules.check(rules.Abilities(self.model, self.multilingual, languages), options)

    def wake(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"model": self.model, "multilingual": self.multilingual, "device": "cpu"}


@dataclass
class House:
    """A running server."""

    url: str
    port: int
    desk: ServerState
    work: ScriptedWork
    client: httpx.AsyncClient

    async def write(
        self,
        file: bytes | None = SECOND,
        fields: Mapping[str, str | list[str]] | None = None,
        *,
        task: str = "transcriptions",
        **more: str,
    ) -> httpx.Response:
        """Upload a file as any client does."""
        data = {"model": "whisper-1", **(fields or {}), **more}
        path = f"/v1/audio/{task}"
        if file is None:
            # Without a file, httpx would send no multipart form.
            return await self.client.post(path, files={k: (None, str(v)) for k, v in data.items()})
        return await self.client.post(path, files={"file": ("speech.wav", file)}, data=data)

    async def until(self, met: Callable[[], bool], within_s: float = 5) -> None:
        """Wait until something is so."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not met():
            assert loop.time() - began < within_s, "it never came to that"
            await asyncio.sleep(0.002)


Opened = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture
def open_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Open a house with these limits, this key and these origins."""

    @asynccontextmanager
    async def opened(
        work: ScriptedWork | None = None,
        *,
        key: str | None = None,
        origins: tuple[str, ...] = (),
        load: Callable[[], Awaitable[None]] | None = None,
        **limits: Any,
    ) -> AsyncIterator[House]:
        work = work or ScriptedWork()
        bounds = Limits(**limits)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        uploads = UploadSpace(bounds.scratch_bytes)
        desk = ServerState(
            limits=bounds,
            key=key,
            origins=frozenset(origins),
            work=cast(Work, work),
            uploads=uploads,
        )
        failures: list[BaseException] = []
        listener = listen("127.0.0.1", 0, bounds)
        server = make_server(make_app(desk, load or work.start, work.close, failures.append), desk)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client:
                yield House(url, port, desk, work, client)
        finally:
            work.gate.set()
            server.should_exit = True
            await task
            listener.close()
            assert uploads.used_bytes == 0, "an upload was kept"
            assert not os.listdir(tmp_path), "a file was left"

    return opened


@pytest.fixture
async def house(open_house: Opened) -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


def busy() -> ServiceError:
    return ServiceError("too many wait", status=429, code="busy", retry_after_s=3)

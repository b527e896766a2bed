"""The real server on a real socket, with a scripted scheduler."""

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
from hearth_whisper.limits import Limits
from hearth_whisper.recognition import SAMPLE_RATE, Audio, Options, Samples, Segment, Word, model
from hearth_whisper.recognition.scheduler import Scheduler
from hearth_whisper.web.app import make_app
from hearth_whisper.web.state import ServerState

from ..audio.sounds import tone, wav

WORDS = ("Good", "morning,", "the", "kettle", "is", "on.")
SECOND = wav(tone(1.0).tobytes())


@dataclass(slots=True)
class ScriptedTranscription:
    """Yields one word per half second of audio, a segment per two seconds."""

    scheduler: "ScriptedScheduler"
    blocks: Iterator[Any]
    options: Options
    language: str | None = "en"
    language_probability: float = 0.9
    audio_s: float = 0.0
    seconds: float = 0.0

    async def __aiter__(self) -> AsyncIterator[Segment]:
        words = itertools.cycle(WORDS)
        async for part in self._windows():
            await asyncio.sleep(self.scheduler.step_s)
            await self.scheduler.gate.wait()
            if self.scheduler.fails_after == len(self.scheduler.texts) and self.scheduler.error:
                raise self.scheduler.error
            if np.abs(part).max() > 0.01:
                yield self._segment(part.size / SAMPLE_RATE, words)
            self.audio_s += part.size / SAMPLE_RATE

    async def _windows(self) -> AsyncIterator[Samples]:
        held, size = np.zeros(0, np.float32), 2 * SAMPLE_RATE
        while (block := await asyncio.to_thread(next, self.blocks, None)) is not None:
            self.scheduler.blocks.append(block)
            held = np.concatenate([held, block])
            while held.size >= size:
                yield held[:size]
                held = held[size:]
        if held.size:
            yield held

    def _segment(self, length_s: float, words: Iterator[str]) -> Segment:
        count = max(1, round(length_s * 2))
        each_s = length_s / count
        timed = tuple(
            Word(self.audio_s + n * each_s, self.audio_s + (n + 1) * each_s, f" {next(words)}", 0.9)
            for n in range(count)
        )
        text = "".join(word.text for word in timed)
        self.scheduler.texts.append(text)
        times = timed if self.options.word_timestamps else ()
        return Segment(self.audio_s, self.audio_s + length_s, text, times, -0.3, tokens=(7, 8))

    async def aclose(self) -> None:
        self.scheduler.closed += 1


@dataclass
class ScriptedScheduler:
    """Replaces the scheduler; raises `error` at once, or after `fails_after` segments."""

    step_s: float = 0.0
    error: Exception | None = None
    fails_after: int | None = None
    ready: bool = True
    failure: str | None = None
    multilingual: bool = True
    model: str | None = "tiny.en"
    calls: list[Options] = field(default_factory=list)
    audios: list[Audio] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    active: int = 0
    closed: int = 0
    ended: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def open_texts(self) -> int:
        return len(self.calls) - self.closed

    async def transcribe_file(self, audio: Audio, options: Options) -> ScriptedTranscription:
        if self.error and self.fails_after is None:
            raise self.error
        self.calls.append(options)
        self.audios.append(audio)
        return ScriptedTranscription(self, iter(audio), options)

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.ended = True

    def check(self, options: Options) -> None:
        if self.model:
            languages = tuple(NAMES) if self.multilingual else ("en",)
            model.check_options(
                model.Capabilities(self.model, self.multilingual, languages), options
            )

    def preload(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"model": self.model, "multilingual": self.multilingual, "device": "cpu"}


@dataclass
class RunningServer:
    """A running server."""

    url: str
    port: int
    state: ServerState
    scheduler: ScriptedScheduler
    client: httpx.AsyncClient

    async def transcribe(
        self,
        file: bytes | None = SECOND,
        fields: Mapping[str, str | list[str]] | None = None,
        *,
        task: str = "transcriptions",
        **more: str,
    ) -> httpx.Response:
        """Upload a file."""
        data = {"model": "whisper-1", **(fields or {}), **more}
        path = f"/v1/audio/{task}"
        if file is None:
            # Without a file, httpx would send no multipart form.
            return await self.client.post(path, files={k: (None, str(v)) for k, v in data.items()})
        return await self.client.post(path, files={"file": ("speech.wav", file)}, data=data)

    async def until(self, condition: Callable[[], bool], within_s: float = 5) -> None:
        """Wait until a condition holds."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not condition():
            assert loop.time() - started < within_s, "the condition never held"
            await asyncio.sleep(0.002)


OpenServer = Callable[..., AbstractAsyncContextManager[RunningServer]]


@pytest.fixture
def open_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenServer:
    """Open a server with these limits, this key and these origins."""

    @asynccontextmanager
    async def opened(
        scheduler: ScriptedScheduler | None = None,
        *,
        key: str | None = None,
        origins: tuple[str, ...] = (),
        load: Callable[[], Awaitable[None]] | None = None,
        **limits: Any,
    ) -> AsyncIterator[RunningServer]:
        scheduler = scheduler or ScriptedScheduler()
        bounds = Limits(**limits)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        uploads = UploadSpace(bounds.scratch_bytes)
        state = ServerState(
            limits=bounds,
            key=key,
            origins=frozenset(origins),
            scheduler=cast(Scheduler, scheduler),
            uploads=uploads,
            candidates=frozenset({"small", "tiny.en"}),
        )
        failures: list[BaseException] = []
        listener = listen("127.0.0.1", 0, bounds)
        uvicorn = make_server(
            make_app(state, load or scheduler.start, scheduler.close, failures.append), state
        )
        task = asyncio.create_task(uvicorn.serve(sockets=[listener]))
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client:
                yield RunningServer(url, port, state, scheduler, client)
        finally:
            scheduler.gate.set()
            uvicorn.should_exit = True
            await task
            listener.close()
            assert uploads.used_bytes == 0, "an upload was kept"
            assert not os.listdir(tmp_path), "a file was left"

    return opened


@pytest.fixture
async def server(open_server: OpenServer) -> AsyncIterator[RunningServer]:
    async with open_server() as opened:
        yield opened


def busy() -> ServiceError:
    return ServiceError("too many wait", status=429, code="busy", retry_after_s=3)

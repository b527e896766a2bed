"""The servers that a call uses, each of them ours and on a real socket, with scripted models."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Segment as SpokenSegment
from hearth_kokoro.synthesis.synthesizer import Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voice, Voices
from hearth_kokoro.web import app as kokoro_app
from hearth_kokoro.web.limits import Limits as KokoroLimits
from hearth_kokoro.web.state import LoadedModel
from hearth_kokoro.web.state import ServerState as KokoroState
from hearth_serving.application import AppState
from hearth_serving.forms import UploadSpace
from hearth_serving.server import listen, make_server
from hearth_whisper.limits import Limits as WhisperLimits
from hearth_whisper.recognition import SAMPLE_RATE, Options, RecognitionCancelled, Samples, Segment
from hearth_whisper.recognition.queues import FinalRequest
from hearth_whisper.recognition.scheduler import Scheduler
from hearth_whisper.recognition.transcription import Transcript
from hearth_whisper.web import app as whisper_app
from hearth_whisper.web.state import ServerState as WhisperState

from .sounds import SPOKEN_RATE, spoken


@asynccontextmanager
async def serving(app: Starlette, state: AppState | None = None) -> AsyncIterator[str]:
    """Serve an application on a loopback port."""
    state = state or AppState(limits=WhisperLimits())
    listener = listen("127.0.0.1", 0, state.limits)
    server = make_server(app, state)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        # Its socket listens already, so the first request waits and is not refused.
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()


@dataclass
class Recogniser:
    """Recognises after `takes_s`; the text is the next of `texts`, or tells the length."""

    takes_s: float = 0.1
    texts: list[str] = field(default_factory=list)
    language: str = "en"
    ready: bool = True
    failure: str | None = None
    started: int = 0
    cancelled: int = 0
    lengths_s: list[float] = field(default_factory=list)
    _known: dict[int, str] = field(default_factory=dict)

    async def transcribe_final(
        self,
        samples: Samples,
        options: Options,
        cancelled: Event,
        request: FinalRequest | None = None,
    ) -> Transcript:
        self.started += 1
        try:
            await asyncio.sleep(self.takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if cancelled.is_set():
            raise RecognitionCancelled
        length_s = samples.size / SAMPLE_RATE
        self.lengths_s.append(length_s)
        text = self.texts.pop(0) if self.texts else f"I spoke for {length_s:.1f} seconds."
        segments = (Segment(0.0, length_s, f" {text}", (), -0.1, tokens=(1,)),) if text else ()
        return Transcript(segments, options.language or self.language, 1.0, length_s, 0.1)

    async def transcribe_partial(self, samples: Samples, options: Options) -> Transcript | None:
        return None

    def preload(self) -> None:
        pass

    def check(self, options: Options) -> None:
        pass

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"model": "tiny", "multilingual": True, "device": "cpu"}


@dataclass
class Speaker:
    """Speaks each clause with espeak-ng, after `takes_s`."""

    takes_s: float = 0.05
    active: int = 0
    stopped_early: int = 0
    spoken: list[str] = field(default_factory=list)
    voices: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def speak(
        self, buffer: TextBuffer, voice: Voice, speed: float, playback: Playback | None = None
    ) -> AsyncGenerator[SpokenSegment, None]:
        self.active += 1
        self.voices.append(voice.name)
        ended = False
        try:
            index = 0
            while True:
                while not (tokens := buffer.ready()) and not buffer.is_finished:
                    await buffer.changed()
                if not tokens:
                    break
                if self.error:
                    raise self.error
                await asyncio.sleep(self.takes_s)
                text = "".join(token.source for token in buffer.take(len(tokens)))
                self.spoken.append(text)
                yield SpokenSegment(index, text, spoken(text))
                index += 1
            ended = True
        finally:
            self.active -= 1
            self.stopped_early += not ended

    async def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"active": self.active, "waiting": 0}


@dataclass
class Gateway:
    """Chat completions: `answers` in turn, word by word, one every `pace_s` after `first_s`."""

    first_s: float = 0.05
    pace_s: float = 0.01
    answers: list[Any] = field(default_factory=list)
    default: str = "The kettle is on, and the tea is ready. Dinner is at seven."
    requests: list[dict[str, Any]] = field(default_factory=list)
    active: int = 0
    left: int = 0
    """Answers whose reader left before their end."""
    status: int = 200

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        if self.status != 200:
            error = {"message": "no model of voice answered", "code": "all_failed"}
            return JSONResponse({"error": error}, self.status)
        answer = self.answers.pop(0) if self.answers else self.default
        if callable(answer):
            answer = answer(body)
        return StreamingResponse(self._stream(answer), media_type="text/event-stream")

    async def _stream(self, answer: Any) -> AsyncIterator[str]:
        self.active += 1
        ended = False
        try:
            await asyncio.sleep(self.first_s)
            parts = [answer] if isinstance(answer, str | dict) else answer
            for part in parts:
                if isinstance(part, dict):
                    yield _chunk({"tool_calls": [{"index": 0, "id": "x", "function": part}]})
                    continue
                for word in part.split(" "):
                    yield _chunk({"content": f"{word} "})
                    await asyncio.sleep(self.pace_s)
            yield _chunk({}, finish="stop")
            yield 'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}\n\n'
            yield "data: [DONE]\n\n"
            ended = True
        finally:
            self.active -= 1
            self.left += not ended


def _chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


def whisper(recogniser: Recogniser, folder: Path) -> tuple[Starlette, WhisperState]:
    """Return the real recognition server, with the real VAD."""
    limits = WhisperLimits()
    state = WhisperState(
        limits=limits,
        scheduler=cast(Scheduler, recogniser),
        uploads=UploadSpace(limits.scratch_bytes),
        candidates=frozenset({"tiny"}),
    )
    fail: Callable[[BaseException], None] = lambda error: None  # noqa: E731
    return whisper_app.make_app(state, recogniser.start, recogniser.close, fail), state


def kokoro(speaker: Speaker) -> tuple[Starlette, KokoroState]:
    """Return the real speech server."""
    state = KokoroState(KokoroLimits(), None, frozenset(), state_folder=None)
    names = ("af_heart", "ef_dora", "ff_siwis", "am_adam")
    engine = SimpleNamespace(
        name="scripted", provider="none", model="m", model_sha256="", threads=1
    )

    async def load() -> LoadedModel:
        voices = Voices({name: np.zeros((510, 1, 256), np.float32) for name in names})
        return LoadedModel(cast(Synthesizer, speaker), voices, cast(Any, engine), "a test", {})

    assert SPOKEN_RATE == 24_000
    return kokoro_app.make_app(state, load, lambda error: None), state

"""A VAD that detects loud audio, and a scheduler whose results a test sets."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from hearth_whisper.live.endpointing import BLOCK, FRAME, VadFrame
from hearth_whisper.live.messages import StartMessage
from hearth_whisper.live.session import LiveSession
from hearth_whisper.recognition import (
    SAMPLE_RATE,
    Options,
    RecognitionCancelled,
    Samples,
    Segment,
    Word,
)
from hearth_whisper.recognition.queues import FinalRequest
from hearth_whisper.recognition.transcription import Transcript


def speech(seconds: float, level: float = 0.3) -> Samples:
    """Return audio that the scripted VAD takes for speech."""
    return np.full(round(seconds * SAMPLE_RATE), level, np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


class ScriptedVad:
    """Takes audio above 0.1 for speech, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def process(self, samples: Samples) -> list[VadFrame]:
        assert samples.size % FRAME == 0
        self.calls += 1
        frames = samples.reshape(-1, FRAME // BLOCK, BLOCK)
        return [
            VadFrame(
                0.9 if abs(frame).mean() > 0.1 else 0.1, tuple(abs(frame).max(axis=1).tolist())
            )
            for frame in frames
        ]


def transcript(text: str, seconds: float = 1.0, **more: Any) -> Transcript:
    """Return a transcript of the scheduler."""
    words = tuple(Word(0.1, 0.1 + seconds, f" {word}", 0.8) for word in text.split())
    segments = (Segment(0.0, seconds, f" {text}", words, -0.1, tokens=(1, 2)),) if text else ()
    return Transcript(segments, "en", 1.0, seconds, 0.1, **more)


@dataclass(eq=False)
class Call:
    """One requested recognition."""

    samples: Samples
    options: Options
    cancelled: Event | None
    request: FinalRequest | None
    result: asyncio.Future[Transcript | None]

    @property
    def is_active(self) -> bool:
        return not self.result.done() and not (self.cancelled and self.cancelled.is_set())


@dataclass
class ScriptedScheduler:
    """Returns the next of `texts` at once; without any, waits until a test sets the result."""

    texts: list[str] = field(default_factory=list)
    partial_texts: list[str | None] = field(default_factory=list)
    finals: list[Call] = field(default_factory=list)
    partials: list[Call] = field(default_factory=list)
    preloads: int = 0

    def preload(self) -> None:
        self.preloads += 1

    async def transcribe_final(
        self,
        samples: Samples,
        options: Options,
        cancelled: Event,
        request: FinalRequest | None = None,
    ) -> Transcript:
        call = Call(
            samples, options, cancelled, request, asyncio.get_running_loop().create_future()
        )
        self.finals.append(call)
        if self.texts:
            call.result.set_result(transcript(self.texts.pop(0)))
        recognised = await call.result
        if cancelled.is_set():
            raise RecognitionCancelled
        assert recognised
        return recognised

    async def transcribe_partial(self, samples: Samples, options: Options) -> Transcript | None:
        call = Call(samples, options, None, None, asyncio.get_running_loop().create_future())
        self.partials.append(call)
        if self.partial_texts:
            text = self.partial_texts.pop(0)
            call.result.set_result(transcript(text) if text is not None else None)
        return await call.result


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class SessionDriver:
    """A session with its events, and a clock that only the audio advances."""

    def __init__(self, scheduler: ScriptedScheduler, **parameters: Any) -> None:
        self.scheduler, self.clock, self.vad = scheduler, Clock(), ScriptedVad()
        self.events: list[dict[str, Any]] = []
        self.session = LiveSession(
            self.vad, scheduler, StartMessage(**parameters), self._send, clock=self.clock
        )
        self.sending = asyncio.create_task(self.session.send_results())

    async def send_audio(self, samples: Samples, chunk_s: float = 0.02) -> None:
        """Send audio in chunks of this length, each of which takes its time."""
        size = round(chunk_s * SAMPLE_RATE)
        for begin in range(0, samples.size, size):
            piece = samples[begin : begin + size]
            self.clock.now += piece.size / SAMPLE_RATE
            await self.session.add_audio(piece)
            await self.settle()

    async def settle(self) -> None:
        """Run all tasks that can run now."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def end(self) -> None:
        await self.session.flush("done")
        await asyncio.wait_for(self.sending, 5)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    async def _send(self, event: dict[str, Any]) -> None:
        self.events.append(event)


StartSession = Callable[..., SessionDriver]

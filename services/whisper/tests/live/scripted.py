"""An ear that hears what is loud, and work whose every answer a test gives."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hearth_whisper.live.listener import Listener
from hearth_whisper.live.orders import Start
from hearth_whisper.live.turns import BLOCK, FRAME, Frame
from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Segment, Stop, Stopped, Word
from hearth_whisper.recognising.finals import Claim
from hearth_whisper.recognising.work import WholeText


def speech(seconds: float, level: float = 0.3) -> Samples:
    """Return what the scripted ear takes for speech."""
    return np.full(round(seconds * SAMPLE_RATE), level, np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE), np.float32)


class ScriptedEar:
    """Takes for speech what is louder than 0.1, and counts how it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def hear(self, samples: Samples) -> list[Frame]:
        assert samples.size % FRAME == 0
        self.calls += 1
        frames = samples.reshape(-1, FRAME // BLOCK, BLOCK)
        return [
            Frame(0.9 if abs(frame).mean() > 0.1 else 0.1, tuple(abs(frame).max(axis=1).tolist()))
            for frame in frames
        ]


def said(text: str, seconds: float = 1.0, **more: Any) -> WholeText:
    """Return a text as the work returns it."""
    words = tuple(Word(0.1, 0.1 + seconds, f" {word}", 0.8) for word in text.split())
    segments = (Segment(0.0, seconds, f" {text}", words, -0.1, tokens=(1, 2)),) if text else ()
    return WholeText(segments, "en", 1.0, seconds, 0.1, **more)


@dataclass(eq=False)
class Asked:
    """One recognition that was asked for."""

    samples: Samples
    options: Options
    stop: Stop | None
    claim: Claim | None
    answer: asyncio.Future[WholeText | None]

    @property
    def is_wanted(self) -> bool:
        return not self.answer.done() and not (self.stop and self.stop.is_set())


@dataclass
class ScriptedWork:
    """Answers at once what is next in `texts`; without any, waits until a test answers."""

    texts: list[str] = field(default_factory=list)
    guesses: list[str | None] = field(default_factory=list)
    finals: list[Asked] = field(default_factory=list)
    partials: list[Asked] = field(default_factory=list)
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1

    async def final(
        self, samples: Samples, options: Options, stop: Stop, claim: Claim | None = None
    ) -> WholeText:
        asked = Asked(samples, options, stop, claim, asyncio.get_running_loop().create_future())
        self.finals.append(asked)
        if self.texts:
            asked.answer.set_result(said(self.texts.pop(0)))
        recognised = await asked.answer
        if stop.is_set():
            raise Stopped
        assert recognised
        return recognised

    async def partial(self, samples: Samples, options: Options) -> WholeText | None:
        asked = Asked(samples, options, None, None, asyncio.get_running_loop().create_future())
        self.partials.append(asked)
        if self.guesses:
            guess = self.guesses.pop(0)
            asked.answer.set_result(said(guess) if guess is not None else None)
        return await asked.answer


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Talk:
    """A listener, what it told, and time that only the sound moves."""

    def __init__(self, work: ScriptedWork, **asked: Any) -> None:
        self.work, self.clock, self.ear = work, Clock(), ScriptedEar()
        self.told: list[dict[str, Any]] = []
        self.listener = Listener(self.ear, work, Start(**asked), self._tell, clock=self.clock)
        self.answering = asyncio.create_task(self.listener.answer())

    async def hear(self, samples: Samples, chunk_s: float = 0.02) -> None:
        """Talk in pieces of this length, each of which takes its time."""
        size = round(chunk_s * SAMPLE_RATE)
        for begin in range(0, samples.size, size):
            piece = samples[begin : begin + size]
            self.clock.now += piece.size / SAMPLE_RATE
            await self.listener.hear(piece)
            await self.settle()

    async def settle(self) -> None:
        """Let everything happen that can happen now."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def end(self) -> None:
        await self.listener.flush("done")
        await asyncio.wait_for(self.answering, 5)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.told if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.told]

    async def _tell(self, event: dict[str, Any]) -> None:
        self.told.append(event)


Talks = Callable[..., Talk]

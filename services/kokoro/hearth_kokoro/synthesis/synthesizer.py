"""Speaks texts: the first segment starts soon, and later ones arrive before playback runs dry."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from hearth_kokoro.engines import SAMPLE_RATE, Engine
from hearth_kokoro.synthesis.cache import Cache
from hearth_kokoro.synthesis.cost_model import CostModel, InferenceRun, retry_after_seconds
from hearth_kokoro.synthesis.lead import HELD_MARGIN, shortage_s
from hearth_kokoro.synthesis.playback import Playback, trim
from hearth_kokoro.synthesis.session import Segment, Session, SpeechContext, TextToPhonemes
from hearth_kokoro.synthesis.synthesis_queue import Clock, SynthesisQueue, SynthesisRequest
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voice
from hearth_serving.errors import ServiceError
from hearth_serving.metrics import recent, summary

__all__ = ["Segment", "Synthesizer"]

# Two sizes separate the fixed part of the cost from the growing part. The short text runs twice,
# because one run may be disturbed. The first run is not measured: it also allocates memory.
_SHORT, _LONG = "Hello there,", "A machine that knows its own pace never keeps you waiting."
_WARM_UP = (_SHORT, _SHORT, _LONG, _SHORT)
_MAX_ACTIVE = 32
_PHONEME_BYTES, _FIRST_BYTES, _BOUNDARY_BYTES = 4 * 1024 * 1024, 64 * 1024 * 1024, 4 * 1024 * 1024


class VoiceSource(Protocol):
    """The available voices."""

    names: tuple[str, ...]

    def get(self, name: str, /) -> Voice:
        """Return a voice or a blend."""
        ...


class Synthesizer:
    """One engine that many speeches share by turns; belongs to one event loop.

    At most `max_active` speeches run at once; a further one is rejected with status 429.
    """

    def __init__(
        self,
        engine: Engine,
        voices: VoiceSource,
        phonemizer: TextToPhonemes,
        *,
        clock: Clock = time.perf_counter,
        max_active: int = _MAX_ACTIVE,
    ) -> None:
        self._voices, self._max_active = voices, max_active
        self._sessions: set[Session] = set()
        self._rtf = recent()
        self._context = SpeechContext(
            queue=SynthesisQueue(engine, clock),
            cost_model=CostModel(),
            clock=clock,
            phonemizer=phonemizer,
            side_thread=ThreadPoolExecutor(1, thread_name_prefix="phonemes"),
            phoneme_cache=Cache(_PHONEME_BYTES, lambda key, value: 4 * (len(key[0]) + len(value))),
            first_segments=Cache(_FIRST_BYTES, lambda key, value: 4 * len(key[0]) + value.nbytes),
            boundary_cache=Cache(_BOUNDARY_BYTES, lambda key, value: 4 * len(key[0])),
        )

    async def start(self) -> None:
        """Warm the engine up, and measure the speed of this machine."""
        self._context.queue.start()
        names = self._voices.names
        voice = self._voices.get("af_heart" if "af_heart" in names else names[0])
        runs = [await self._warm_up(text, voice) for text in _WARM_UP]
        self._context.cost_model.calibrate(runs[1:])

    async def close(self) -> None:
        """Stop the synthesis and end both threads."""
        await asyncio.to_thread(self._context.queue.close)
        self._context.side_thread.shutdown(wait=False, cancel_futures=True)

    def speak(
        self,
        buffer: TextBuffer,
        voice: Voice,
        speed: float = 1.0,
        playback: Playback | None = None,
    ) -> AsyncGenerator[Segment, None]:
        """Return the segments of a text as they become ready; ServiceError 429 at the limit.

        One segment is synthesised ahead of the reader; `aclose()` stops the synthesis. Several
        texts with the same `playback` are one continuous speech.
        """
        playback = playback or Playback()
        session = Session(self._context, buffer, voice, speed, playback)
        if playback.is_background:
            return self._segments(session, set())
        self._admit()
        return self._segments(session, self._sessions)

    async def check(self, voice: Voice) -> None:
        """Raise ServiceError 400 if the voice's language is not supported."""
        await self._context.phonemes("a", voice.language)

    def cost_s(self, language: str, speed: float, characters: int) -> float:
        """Return the seconds that the synthesis of so many characters takes."""
        return self._context.cost_model.rate(language, speed).cost_s(characters)

    @property
    def is_busy(self) -> bool:
        """Whether a live speech needs the engine."""
        return any(session.needs_engine for session in self._sessions)

    @property
    def active(self) -> int:
        """The number of speeches, including those that wait for text."""
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """The number of inferences that wait for the engine."""
        return self._context.queue.waiting

    def backlog_s(self) -> float:
        """Return how long the synthesis of all pending text will take."""
        return sum(session.rate.cost_s(session.buffer.unspoken) for session in self._sessions)

    def describe(self) -> dict[str, object]:
        """Return the fields of /status that concern synthesis."""
        context = self._context
        rate = context.cost_model.rate("en-us")
        return {
            "active": self.active,
            "waiting": self.waiting,
            "rtf": summary(self._rtf),
            "pace": {
                "fixed_s": round(rate.fixed_s, 5),
                "per_character_s": round(rate.per_character_s, 6),
                "sound_per_character_s": round(rate.sound_per_character_s, 5),
            },
            "caches": {
                "phonemes": context.phoneme_cache.statistics(),
                "first_pieces": context.first_segments.statistics(),
                "cuts": context.boundary_cache.statistics(),
            },
            "preempted": context.queue.preempted,
        }

    def _admit(self) -> None:
        # A speech that waits for its writer does not count.
        busy = [session for session in self._sessions if not session.is_idle]
        if len(busy) < self._max_active:
            return
        # Speeches take turns: the one with the least text ends after about that much of each.
        least = min(session.rate.cost_s(session.buffer.unspoken) for session in busy)
        wait_s = min(self.backlog_s(), least * len(busy))
        raise ServiceError(
            f"{self._max_active} requests are in progress already; try again later",
            status=429,
            code="queue_full",
            retry_after_s=retry_after_seconds(wait_s),
        )

    async def _segments(
        self, session: Session, sessions: set[Session]
    ) -> AsyncGenerator[Segment, None]:
        if sessions is self._sessions:
            self._admit()
        sessions.add(session)
        pending = _start_next(session)

        def stop() -> None:
            pending.cancel()

        session.buffer.on_cancel(stop)
        held = deque[Segment]()
        try:
            while (segment := await _result(pending, session.buffer)) is not None:
                held.append(segment)
                session.hold(segment)
                wait_s = self._wait_s(session)
                pending = _start_next(session)
                if wait_s:
                    session.held_for(wait_s)
                    continue
                held[0] = replace(held[0], held_s=session.released())
                while held:
                    session.delivered(held[0])
                    yield held.popleft()
            if session.rtf is not None:
                self._rtf.append(session.rtf)
        except ServiceError:
            raise
        except Exception as error:  # engines raise errors of many types
            raise ServiceError(f"speaking failed: {error}", status=500) from error
        finally:
            session.buffer.on_cancel(None)
            pending.cancel()
            sessions.discard(session)

    def _wait_s(self, session: Session) -> float:
        """Return how long the sound must still be held back, so that nobody's speech stalls."""
        if not session.is_held:
            return 0.0
        others = [one for one in self._sessions if one is not session and one.needs_engine]
        # Who plays and must not stall goes first; who is held back, last; the others take turns.
        among = 1 + sum(not one.is_promised for one in others)
        own = session.demand(among, 1 + len(others), HELD_MARGIN)
        if own is None:
            return 0.0
        first = (one.demand() for one in others if one.plays)
        return shortage_s([own, *(one for one in first if one)])

    async def _warm_up(self, text: str, voice: Voice) -> InferenceRun:
        phonemes = await self._context.phonemes(text, voice.language)
        result = await self._context.queue.run(
            SynthesisRequest(phonemes, voice.styles, 1.0, is_first=False, deadline=0.0, cost_s=0.0)
        )
        sound_s = trim(result.samples).size / SAMPLE_RATE
        return InferenceRun(voice.language, len(text), len(phonemes), 1.0, result.seconds, sound_s)


def _start_next(session: Session) -> asyncio.Task[Segment | None]:
    """Start the next segment while the reader has the last one."""
    task = asyncio.create_task(session.next())
    # If the reader disconnects first, nothing else retrieves the task's exception.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _result(pending: asyncio.Task[Segment | None], buffer: TextBuffer) -> Segment | None:
    try:
        return await pending
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if buffer.is_cancelled and not (own and own.cancelling()):
            return None
        raise

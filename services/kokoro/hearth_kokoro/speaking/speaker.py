"""Speaks texts: the first piece soon, the next ones before the listener runs dry."""

import asyncio
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from hearth_kokoro.engines import SAMPLE_RATE, Engine
from hearth_kokoro.speaking.caches import Cache
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.joins import trim
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.speaking.pace import Pace, Run, whole_seconds
from hearth_kokoro.speaking.session import Phonemes, Piece, Session, SpeechContext
from hearth_kokoro.speaking.work import Clock, Order, Work
from hearth_kokoro.voices import Voice
from hearth_serving.errors import ServiceError
from hearth_serving.metrics import recent, summary

__all__ = ["Piece", "Speaker"]

# Two sizes tell the fixed part of an inference from the growing one; the short one twice, for
# one of them may be disturbed. The first run is not measured: it makes what is made once.
_SHORT, _LONG = "Hello there,", "A machine that knows its own pace never keeps you waiting."
_WARM_UP = (_SHORT, _SHORT, _LONG, _SHORT)
_MAX_ACTIVE = 32
_PHONEME_BYTES, _FIRST_BYTES, _CUT_BYTES = 4 * 1024 * 1024, 64 * 1024 * 1024, 4 * 1024 * 1024


class KnownVoices(Protocol):
    """The voices that can be asked for."""

    names: tuple[str, ...]

    def get(self, asked: str) -> Voice:
        """Return a voice."""
        ...


class Speaker:
    """One engine that speaks many texts at once, by turns; lives on one event loop."""

    def __init__(
        self,
        engine: Engine,
        voices: KnownVoices,
        phonemizer: Phonemes,
        *,
        clock: Clock = time.perf_counter,
        max_active: int = _MAX_ACTIVE,
        phoneme_bytes: int = _PHONEME_BYTES,
        first_bytes: int = _FIRST_BYTES,
    ) -> None:
        """Take what it speaks with; `max_active` speeches are made at once, more get a 429."""
        self._voices, self._max_active = voices, max_active
        self._sessions: set[Session] = set()
        self._rtf = recent()
        self._context = SpeechContext(
            work=Work(engine, clock),
            pace=Pace(),
            clock=clock,
            phonemizer=phonemizer,
            side=ThreadPoolExecutor(1, thread_name_prefix="phonemes"),
            known_phonemes=Cache(phoneme_bytes, lambda key, value: 4 * (len(key[0]) + len(value))),
            known_firsts=Cache(first_bytes, lambda key, value: 4 * len(key[0]) + value.nbytes),
            known_cuts=Cache(_CUT_BYTES, lambda key, value: 4 * len(key[0])),
        )

    async def start(self) -> None:
        """Warm up, and measure this machine's pace."""
        self._context.work.start()
        names = self._voices.names
        voice = self._voices.get("af_heart" if "af_heart" in names else names[0])
        runs = [await self._warm_up(text, voice) for text in _WARM_UP]
        self._context.pace.calibrate(runs[1:])

    async def close(self) -> None:
        """Stop what is being made and end both threads."""
        await asyncio.to_thread(self._context.work.close)
        self._context.side.shutdown(wait=False, cancel_futures=True)

    def speak(
        self, feed: Feed, voice: Voice, speed: float = 1.0, listener: Listener | None = None
    ) -> AsyncGenerator[Piece, None]:
        """Return the pieces of a text as they are made; ServiceError 429 where too many are.

        One piece is made ahead while the reader has the last one. `aclose()` stops the work.
        Who is to hear several texts as one speech gives the same listener for each of them.
        """
        self._admit()
        return self._pieces(Session(self._context, feed, voice, speed, listener or Listener()))

    @property
    def active(self) -> int:
        """How many texts are being spoken, or wait for their writers."""
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """How many pieces wait for the engine."""
        return self._context.work.waiting

    def backlog_s(self) -> float:
        """Return how long everything that was asked for will take."""
        return sum(talk.rate.cost_s(talk.feed.unspoken) for talk in self._sessions)

    def describe(self) -> dict[str, object]:
        """Return the part of the status that is about speaking."""
        context = self._context
        rate = context.pace.rate("en-us")
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
                "phonemes": context.known_phonemes.figures(),
                "first_pieces": context.known_firsts.figures(),
                "cuts": context.known_cuts.figures(),
            },
            "preempted": context.work.preempted,
        }

    def _admit(self) -> None:
        # Whose text is still being written takes nobody's place.
        busy = [talk for talk in self._sessions if not talk.is_idle]
        if len(busy) < self._max_active:
            return
        # They take turns, so the one with the least left ends after about that much of each.
        least = min(talk.rate.cost_s(talk.feed.unspoken) for talk in busy)
        wait_s = min(self.backlog_s(), least * len(busy))
        raise ServiceError(
            f"{self._max_active} requests are in progress already; try again later",
            status=429,
            code="queue_full",
            retry_after_s=whole_seconds(wait_s),
        )

    async def _pieces(self, talk: Session) -> AsyncGenerator[Piece, None]:
        self._admit()
        self._sessions.add(talk)
        pending = _begin(talk)

        def stop() -> None:
            pending.cancel()

        talk.feed.on_cancel(stop)
        try:
            while (piece := await _made(pending, talk.feed)) is not None:
                talk.handed_over(piece)
                pending = _begin(talk)
                yield piece
            if talk.rtf is not None:
                self._rtf.append(talk.rtf)
        except ServiceError:
            raise
        except Exception as error:  # whatever an engine raises
            raise ServiceError(f"speaking failed: {error}", status=500) from error
        finally:
            talk.feed.on_cancel(None)
            pending.cancel()
            self._sessions.discard(talk)

    async def _warm_up(self, text: str, voice: Voice) -> Run:
        phonemes = await self._context.phonemes(text, voice.language)
        order = Order(phonemes, voice.styles, 1.0, is_first=False, due=0.0, cost_s=0.0)
        made = await self._context.work.do(order)
        sound_s = trim(made.samples).size / SAMPLE_RATE
        return Run(voice.language, len(text), len(phonemes), 1.0, made.seconds, sound_s)


def _begin(talk: Session) -> asyncio.Task[Piece | None]:
    """Have the next piece made while the reader has the last one."""
    task = asyncio.create_task(talk.next())
    # Where the reader leaves first, nobody else asks how it ended.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _made(pending: asyncio.Task[Piece | None], feed: Feed) -> Piece | None:
    try:
        return await pending
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if feed.is_cancelled and not (own and own.cancelling()):
            return None
        raise

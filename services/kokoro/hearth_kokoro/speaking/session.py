"""One speech: piece after piece, each as long as its listener's lead allows."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

import numpy as np

from hearth_kokoro.engines import MAX_PHONEMES, SAMPLE_RATE, Samples
from hearth_kokoro.speaking.caches import Cache
from hearth_kokoro.speaking.cuts import (
    Cut,
    cuts,
    first_cut,
    halve,
    liked_first,
    next_cut,
    parts,
    spoken,
)
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.joins import trim
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.speaking.pace import Pace, Rate, Run
from hearth_kokoro.speaking.work import Clock, InferenceResult, Order, Work
from hearth_kokoro.text.token import Pause, Token
from hearth_kokoro.voices import Voice

P = ParamSpec("P")
T = TypeVar("T")

# A first piece that was made before may be this much longer than one that must be made now.
_REMEMBERED_SHARE = 3


class Phonemes(Protocol):
    """Reads text; called in a thread of its own."""

    def phonemes(self, text: str, language: str) -> str:
        """Return what the model takes for `text`; ServiceError for a language nobody reads."""
        ...


FirstKey = tuple[str, str, str, float]
"""Spoken text, language, voice and speed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a speech: `text` as it was written, all of it, and its sound (may be empty)."""

    index: int
    text: str
    samples: Samples


@dataclass(slots=True)
class SpeechContext:
    """What all speeches share; used by the event loop alone."""

    work: Work
    pace: Pace
    clock: Clock
    phonemizer: Phonemes
    side: ThreadPoolExecutor
    known_phonemes: Cache[tuple[str, str], str]
    known_firsts: Cache[FirstKey, Samples]
    known_cuts: Cache[tuple[str, str], int]
    """The text that was to be said next and its language -> the tokens that were said at once."""
    making: int = 0
    """How many speeches have a piece being made now."""

    async def phonemes(self, text: str, language: str) -> str:
        """Return a text's phonemes, made in the side thread unless they are known."""
        known = self.known_phonemes.get((text, language))
        if known is None:
            known = await self.aside(self.phonemizer.phonemes, text, language)
            self.known_phonemes.put((text, language), known)
        return known

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do in the side thread what would keep the event loop from others for milliseconds."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.side, partial(function, *args, **kwargs))


class Session:
    """The speech of one feed to a listener, who may have heard others before it."""

    def __init__(
        self, context: SpeechContext, feed: Feed, voice: Voice, speed: float, listener: Listener
    ) -> None:
        """Begin at the text's begin."""
        self.feed = feed
        self._context, self._voice, self._speed, self._listener = context, voice, speed, listener
        self._index = 0
        self._waits = False
        self._made_s = self._sound_s = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to make: all is made, or the text is still being written."""
        return self._waits or self.feed.is_over

    @property
    def rate(self) -> Rate:
        """What a character of this speech costs and gives now, were it alone."""
        return self._context.pace.rate(self._voice.language, self._speed)

    @property
    def rtf(self) -> float | None:
        """Seconds of inference for a second of sound; None where nothing was made."""
        return self._made_s / self._sound_s if self._made_s and self._sound_s else None

    async def next(self) -> Piece | None:
        """Return the next piece once it can be heard, None when all is said."""
        # Who waits in silence for the text to begin or to go on waits for a first sound.
        waited = not self._index
        while not (tokens := self.feed.ready(is_first=waited and not self._lead_s())):
            if self.feed.is_over:
                return None
            waited = self._waits = True
            await self.feed.changed()
        self._waits = False
        self._context.making += 1
        try:
            return await self._make(tokens, waited and not self._lead_s())
        finally:
            self._context.making -= 1

    def handed_over(self, piece: Piece) -> None:
        """Note that the listener has this piece now: it plays after what was there before."""
        self._listener.hears(piece.samples, self._context.clock())

    def _lead_s(self) -> float:
        return self._listener.lead_s(self._context.clock())

    async def _make(self, tokens: list[Token], is_first: bool) -> Piece:
        places = cuts(tokens)
        cut = self._cut(tokens, places, is_first)
        text, sound = spoken(tokens[: cut.end]), np.zeros(0, np.float32)
        key = self._key(text)
        kept = self._context.known_firsts.get(key) if is_first and text else None
        if kept is not None:
            sound = kept
        elif text:
            cut, phonemes = await self._phonemes(tokens, places, cut)
            sound = await self._sound(phonemes, cut, is_first)
            if is_first and text == spoken(tokens[: cut.end]):
                self._context.known_firsts.put(key, sound)
        self._context.known_cuts.put((spoken(tokens), self._voice.language), cut.end)
        return await self._piece(cut, sound)

    def _cut(self, tokens: list[Token], places: list[Cut], is_first: bool) -> Cut:
        # Other cuts are another melody. Who waits for all gets the ones that were heard last, so
        # that a file sounds like what was listened to before, whatever the pace is by now.
        if self._listener.waits_for_all:
            end = self._context.known_cuts.get((spoken(tokens), self._voice.language))
            known = next((cut for cut in places if cut.end == end), None)
            if known:
                return known
        if is_first:
            return self._remembered(tokens, places) or first_cut(places, self.rate)
        return next_cut(places, self.rate.shared(self._context.making), self._lead_s())

    async def _piece(self, cut: Cut, sound: Samples) -> Piece:
        text = "".join(token.source for token in self.feed.take(cut.end))
        pause = Pause.NONE if self.feed.ends_speech else cut.pause
        join = self._listener.joiner.join
        joined = await self._context.aside(join, sound, pause, self._speed)
        piece = Piece(self._index, text, joined)
        self._index += 1
        self._sound_s += joined.size / SAMPLE_RATE
        return piece

    def _remembered(self, tokens: list[Token], places: list[Cut]) -> Cut | None:
        """Return the longest begin whose sound is kept from another time."""
        liked = _REMEMBERED_SHARE * max(liked_first(self.rate), places[:2][-1].size)
        for cut in reversed([cut for cut in places if cut.size <= liked]):
            if self._key(spoken(tokens[: cut.end])) in self._context.known_firsts:
                return cut
        return None

    def _key(self, text: str) -> FirstKey:
        return text, self._voice.language, self._voice.name, self._speed

    async def _phonemes(self, tokens: list[Token], places: list[Cut], cut: Cut) -> tuple[Cut, str]:
        """Return the phonemes of a piece, made shorter where they are too many for the model."""
        while True:
            text = spoken(tokens[: cut.end])
            phonemes = await self._context.phonemes(text, self._voice.language)
            shorter = halve([place for place in places if place.end <= cut.end])
            if len(phonemes) <= MAX_PHONEMES or shorter is None:
                return cut, phonemes
            cut = shorter

    async def _sound(self, phonemes: str, cut: Cut, is_first: bool) -> Samples:
        """Have a piece made; a single word with too many phonemes is made in parts."""
        sounds = []
        for index, part in enumerate(parts(phonemes)):
            size = cut.size * len(part) / len(phonemes)
            made = await self._context.work.do(
                Order(
                    phonemes=part,
                    styles=self._voice.styles,
                    speed=self._speed,
                    # Nobody may hold the engine by one endless word that begins.
                    is_first=is_first and not index,
                    due=self._context.clock() + self._lead_s(),
                    cost_s=self.rate.cost_s(size),
                )
            )
            sounds.append(await self._learn(part, size, made))
        return np.concatenate(sounds) if sounds else np.zeros(0, np.float32)

    async def _learn(self, phonemes: str, size: float, made: InferenceResult) -> Samples:
        sound = await self._context.aside(trim, made.samples)
        self._made_s += made.seconds
        self._context.pace.learn(
            Run(
                language=self._voice.language,
                characters=max(1, round(size)),
                phonemes=len(phonemes),
                speed=self._speed,
                seconds=made.seconds,
                sound_s=sound.size / SAMPLE_RATE,
            )
        )
        return sound

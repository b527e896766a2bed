"""One speech: piece after piece, each as long as its listener's lead allows."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hearth_kokoro.caches import Cache
from hearth_kokoro.cuts import Cut, cuts, first_cut, halve, liked_first, next_cut, spoken
from hearth_kokoro.engines import MAX_PHONEMES, SAMPLE_RATE, Samples
from hearth_kokoro.feed import Feed
from hearth_kokoro.figures import Figures
from hearth_kokoro.joins import Joiner, trim
from hearth_kokoro.pace import Pace, Rate, Run
from hearth_kokoro.text.token import Pause, Token
from hearth_kokoro.voices import Voice
from hearth_kokoro.work import Clock, Made, Order, Work

# A first piece that was made before may be this much longer than one that must be made now.
_REMEMBERED_SHARE = 3


class Phonemes(Protocol):
    """Reads text; called in a thread of its own."""

    def phonemes(self, text: str, language: str) -> str:
        """Return what the model takes for `text`; SpeechError for a language nobody reads."""
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
class Studio:
    """What all speeches share; used by the event loop alone."""

    work: Work
    pace: Pace
    clock: Clock
    phonemizer: Phonemes
    side: ThreadPoolExecutor
    known_phonemes: Cache[tuple[str, str], str]
    known_firsts: Cache[FirstKey, Samples]
    figures: Figures
    making: int = 0
    """How many speeches have a piece being made now."""

    async def phonemes(self, text: str, language: str) -> str:
        """Return a text's phonemes, made in the side thread unless they are known."""
        known = self.known_phonemes.get((text, language))
        if known is None:
            loop = asyncio.get_running_loop()
            known = await loop.run_in_executor(self.side, self.phonemizer.phonemes, text, language)
            self.known_phonemes.put((text, language), known)
        return known


class Talk:
    """The speech of one feed: where it is, and until when its listener has something to hear."""

    def __init__(self, studio: Studio, feed: Feed, voice: Voice, speed: float) -> None:
        """Begin at the text's begin."""
        self.feed = feed
        self._studio, self._voice, self._speed = studio, voice, speed
        self._joiner = Joiner(speed)
        self._index = 0
        # The listener plays without a break from the first piece that was handed over.
        self._plays_until: float | None = None
        self._asked_at: float | None = None
        self._made_s = self._sound_s = 0.0

    @property
    def rate(self) -> Rate:
        """What a character of this speech costs and gives now, were it alone."""
        return self._studio.pace.rate(self._voice.language, self._speed)

    @property
    def rtf(self) -> float | None:
        """Seconds of inference for a second of sound; None where nothing was made."""
        return self._made_s / self._sound_s if self._made_s and self._sound_s else None

    async def next(self) -> Piece | None:
        """Return the next piece once it can be heard, None when all is said."""
        waited = False
        while not (tokens := self.feed.ready(is_first=not self._index)):
            if self.feed.is_over:
                return None
            waited = True
            await self.feed.changed()
        self._asked_at = self._studio.clock() if self._asked_at is None else self._asked_at
        self._studio.making += 1
        try:
            # Who waits in silence for the text to go on waits for a first sound again.
            return await self._make(tokens, not self._index or (waited and self._lead_s() <= 0))
        finally:
            self._studio.making -= 1

    def handed_over(self, piece: Piece) -> None:
        """Note that the listener has this piece now: it plays after what it had before."""
        now = self._studio.clock()
        begins = now if self._plays_until is None else max(now, self._plays_until)
        self._plays_until = begins + piece.samples.size / SAMPLE_RATE

    def _lead_s(self) -> float:
        return max(0.0, (self._plays_until or 0.0) - self._studio.clock())

    async def _make(self, tokens: list[Token], is_first: bool) -> Piece:
        places = cuts(tokens)
        if is_first:
            cut = self._remembered(tokens, places) or first_cut(places, self.rate)
        else:
            cut = next_cut(places, self.rate.shared(self._studio.making), self._lead_s())
        text, sound = spoken(tokens[: cut.end]), np.zeros(0, np.float32)
        key = self._key(text)
        kept = self._studio.known_firsts.get(key) if is_first and text else None
        if kept is not None:
            sound = kept
        elif text:
            cut, phonemes = await self._phonemes(tokens, places, cut)
            sound = await self._sound(phonemes, cut, is_first)
            if is_first and text == spoken(tokens[: cut.end]):
                self._studio.known_firsts.put(key, sound)
        return self._piece(cut, sound)

    def _piece(self, cut: Cut, sound: Samples) -> Piece:
        taken = self.feed.take(cut.end)
        pause = Pause.NONE if self.feed.is_over else cut.pause
        piece = Piece(
            self._index, "".join(t.source for t in taken), self._joiner.join(sound, pause)
        )
        self._index += 1
        self._studio.figures.characters += len(piece.text)
        self._studio.figures.sound_s += piece.samples.size / SAMPLE_RATE
        self._sound_s += piece.samples.size / SAMPLE_RATE
        if self._asked_at is not None and sound.size and self._plays_until is None:
            waited_ms = (self._studio.clock() - self._asked_at) * 1000
            self._studio.figures.ttfa_ms.append(waited_ms)
        return piece

    def _remembered(self, tokens: list[Token], places: list[Cut]) -> Cut | None:
        """Return the longest begin whose sound is kept from another time."""
        liked = _REMEMBERED_SHARE * max(liked_first(self.rate), places[:2][-1].size)
        language, name = self._voice.language, self._voice.name
        for cut in reversed([cut for cut in places if cut.size <= liked]):
            if (
                spoken(tokens[: cut.end]),
                language,
                name,
                self._speed,
            ) in self._studio.known_firsts:
                return cut
        return None

    def _key(self, text: str) -> FirstKey:
        return text, self._voice.language, self._voice.name, self._speed

    async def _phonemes(self, tokens: list[Token], places: list[Cut], cut: Cut) -> tuple[Cut, str]:
        """Return the phonemes of a piece, made shorter where they are too many for the model."""
        while True:
            text = spoken(tokens[: cut.end])
            phonemes = await self._studio.phonemes(text, self._voice.language)
            shorter = halve([place for place in places if place.end <= cut.end])
            if len(phonemes) <= MAX_PHONEMES or shorter is None:
                return cut, phonemes
            cut = shorter

    async def _sound(self, phonemes: str, cut: Cut, is_first: bool) -> Samples:
        """Have a piece made; a single word with too many phonemes is made in parts."""
        sounds = []
        for part in parts(phonemes):
            size = cut.size * len(part) / len(phonemes)
            made = await self._studio.work.do(
                Order(
                    phonemes=part,
                    styles=self._voice.styles,
                    speed=self._speed,
                    is_first=is_first,
                    due=self._studio.clock() + self._lead_s(),
                    cost_s=self.rate.cost_s(size),
                )
            )
            sounds.append(self._learn(part, size, made))
        return np.concatenate(sounds) if sounds else np.zeros(0, np.float32)

    def _learn(self, phonemes: str, size: float, made: Made) -> Samples:
        sound = trim(made.samples)
        self._made_s += made.seconds
        self._studio.figures.inferences += 1
        self._studio.pace.learn(
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


def parts(phonemes: str) -> list[str]:
    """Cut phonemes into parts that the model takes, between words where there are any."""
    found: list[str] = []
    rest = phonemes.strip()
    while len(rest) > MAX_PHONEMES:
        space = rest.rfind(" ", MAX_PHONEMES // 2, MAX_PHONEMES + 1)
        end = space if space > 0 else MAX_PHONEMES
        found.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [*found, rest] if rest else found

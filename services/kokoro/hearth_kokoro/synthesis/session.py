"""One speech: segment after segment, each as long as the buffered playback allows."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

import numpy as np

from hearth_kokoro.engines import MAX_PHONEMES, SAMPLE_RATE, Samples
from hearth_kokoro.synthesis.cache import Cache
from hearth_kokoro.synthesis.cost_model import CostModel, InferenceRun, SynthesisRate
from hearth_kokoro.synthesis.lead import FAST_RTF, Demand, demand, rtf
from hearth_kokoro.synthesis.playback import Playback, trim
from hearth_kokoro.synthesis.segmentation import (
    Boundary,
    boundaries,
    first_boundary,
    middle_boundary,
    next_boundary,
    preferred_first_size,
    split_phonemes,
    spoken_text,
)
from hearth_kokoro.synthesis.synthesis_queue import (
    Clock,
    InferenceResult,
    SynthesisQueue,
    SynthesisRequest,
)
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.text.tokens import Pause, Token
from hearth_kokoro.voices import Voice

P = ParamSpec("P")
T = TypeVar("T")

# A cached first segment may be this many times longer than one that must be synthesised.
_CACHED_SHARE = 3
# A live speech interrupts the segment of a file, which is then repeated: it must not be long.
_BACKGROUND_S = 5.0
# A reader that has not taken a segment for so long has enough sound to play.
_SLOW_READER_S = 0.5
# Where the first sound has to wait, so much of a speech is cached: its repeat need not wait.
_REMEMBERED_S = 60.0


class TextToPhonemes(Protocol):
    """Converts text to phonemes; called in a separate thread."""

    def phonemes(self, text: str, language: str) -> str:
        """Return the model's input for `text`; ServiceError for an unsupported language."""
        ...


FirstKey = tuple[str, str, str, float]
"""Spoken text, language, voice and speed."""


@dataclass(slots=True)
class Work:
    """Seconds of work for one segment; 0 where a cache had the result."""

    phonemes_s: float = 0.0
    inference_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a speech: its text as it was written, and its sound (may be empty)."""

    index: int
    text: str
    samples: Samples
    held_s: float = 0.0
    """How long the sound that starts here was held back so that it does not stall."""
    work: Work = field(default_factory=Work)


@dataclass(slots=True)
class SpeechContext:
    """The objects that all speeches share; only the event loop uses them."""

    queue: SynthesisQueue
    cost_model: CostModel
    clock: Clock
    phonemizer: TextToPhonemes
    side_thread: ThreadPoolExecutor
    phoneme_cache: Cache[tuple[str, str], str]
    first_segments: Cache[FirstKey, Samples]
    boundary_cache: Cache[tuple[str, str], int]
    """The text at a point and its language -> the number of tokens of the segment made there."""
    synthesizing: int = 0
    """The number of speeches that have a segment in synthesis now."""

    async def phonemes(self, text: str, language: str) -> str:
        """Return a text's phonemes from the cache or from the side thread."""
        known = self.phoneme_cache.get((text, language))
        if known is None:
            known = await self.in_side_thread(self.phonemizer.phonemes, text, language)
            self.phoneme_cache.put((text, language), known)
        return known

    async def in_side_thread(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function that would block the event loop for milliseconds."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.side_thread, partial(function, *args, **kwargs))


class Session:
    """The speech of one text; a playback may contain several."""

    def __init__(
        self,
        context: SpeechContext,
        buffer: TextBuffer,
        voice: Voice,
        speed: float,
        playback: Playback,
    ) -> None:
        self.buffer = buffer
        self._context, self._voice, self._speed, self._playback = context, voice, speed, playback
        self._index = 0
        self._waits = self._works = False
        self._rests_since = context.clock()
        self._held_since: float | None = None
        self._wait_s = 0.0
        self._inference_s = self._sound_s = 0.0
        self._work = Work()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to synthesise: all is done, or the writer is still writing."""
        return self._waits or self.buffer.is_finished

    @property
    def rate(self) -> SynthesisRate:
        """The cost and the sound of a character of this speech, if it ran alone."""
        return self._context.cost_model.rate(self._voice.language, self._speed)

    @property
    def rtf(self) -> float | None:
        """Seconds of inference per second of sound; None where nothing was synthesised."""
        if not self._inference_s or not self._sound_s:
            return None
        return self._inference_s / self._sound_s

    async def next(self) -> Segment | None:
        """Return the next segment when it is ready, None at the end of the speech."""
        # A client that waits in silence for more text waits for a first sound again.
        waited = not self._index
        while not (tokens := self.buffer.ready(is_first=waited and not self._buffered_s())):
            if self.buffer.is_finished:
                return None
            waited = self._waits = True
            await self.buffer.changed()
        self._waits, self._works = False, True
        live = not self._playback.is_background
        self._context.synthesizing += live
        try:
            return await self._synthesize(tokens, live and waited and not self._buffered_s())
        finally:
            self._works, self._rests_since = False, self._context.clock()
            self._context.synthesizing -= live

    @property
    def is_promised(self) -> bool:
        """Whether this speech may start only when it will not stall; false on a fast machine."""
        if self._playback.early or self._playback.starts_when_complete:
            return False
        return rtf(self.rate) > FAST_RTF

    @property
    def is_held(self) -> bool:
        """Whether the sound is held back."""
        return self._held_since is not None

    @property
    def plays(self) -> bool:
        """Whether the client has sound, and was promised that it will not stall."""
        return self._index > 0 and not self.is_held and self.is_promised

    @property
    def needs_engine(self) -> bool:
        """Whether a segment is in synthesis or will be at once; not while its reader is slow."""
        rests_s = self._context.clock() - self._rests_since
        return not self.is_idle and (self._works or rests_s < _SLOW_READER_S)

    def demand(self, among: int = 1, turns: int = 1, margin: float = 1.0) -> Demand | None:
        """Return what is left to synthesise of the known text; None where nothing is.

        The engine is shared equally `among` speeches; a segment waits for one of each of `turns`.
        """
        tokens = self.buffer.ready()
        places = boundaries(tokens)
        if not places or not places[-1].size:
            return None
        rate, known = self.rate, sum(len(token.source) for token in tokens)
        # Only a window of the text is tokenized: the rest is like it.
        characters = places[-1].size * max(1.0, self.buffer.unspoken / known)
        taking_turns = rate.shared(turns)
        step_s = taking_turns.cost_s(next_boundary(places, taking_turns, 0.0).size)
        return demand(rate.shared(among), self._buffered_s(), characters, step_s, margin)

    def hold(self, segment: Segment) -> None:
        """Keep a segment back until `released`."""
        self._playback.held_s += segment.samples.size / SAMPLE_RATE

    def held_for(self, seconds: float) -> None:
        """Tell the client that its sound is held back, and for how much longer."""
        self._wait_s = seconds
        self._playback.on_hold(seconds)

    def released(self) -> float:
        """End the hold; return how many seconds it took."""
        held_s = 0.0 if self._held_since is None else self._context.clock() - self._held_since
        self._held_since = None
        return held_s

    def delivered(self, segment: Segment) -> None:
        """Record that the client received this segment now."""
        self._playback.held_s = max(0.0, self._playback.held_s - segment.samples.size / SAMPLE_RATE)
        self._playback.add(segment.samples, self._context.clock())

    def _buffered_s(self) -> float:
        return self._playback.buffered_s(self._context.clock())

    async def _synthesize(self, tokens: list[Token], is_first: bool) -> Segment:
        self._work, places = Work(), boundaries(tokens)
        end = self._choose_end(tokens, places, is_first)
        text, sound = spoken_text(tokens[: end.end]), np.zeros(0, np.float32)
        key, is_promised = self._key(text), self.is_promised
        is_cached = is_first or (is_promised and self._sound_s < _REMEMBERED_S)
        cached = self._context.first_segments.get(key) if is_cached and text else None
        if cached is not None:
            sound = cached
        elif text:
            end, phonemes = await self._phonemes(tokens, places, end)
            left = self.demand() if is_promised and not self.is_held and not is_first else None
            sound = await self._infer(phonemes, end, is_first, left)
            if is_cached and text == spoken_text(tokens[: end.end]):
                self._context.first_segments.put(key, sound)
        if not self._playback.is_background:
            self._context.boundary_cache.put((spoken_text(tokens), self._voice.language), end.end)
        segment = await self._joined(end, sound)
        if is_first and is_promised:
            self._held_since = self._context.clock()
        return segment

    def _choose_end(self, tokens: list[Token], places: list[Boundary], is_first: bool) -> Boundary:
        if self._playback.is_background:
            return next_boundary(places, self.rate, _BACKGROUND_S)
        # Other boundaries change the intonation. A download repeats the boundaries of the last
        # playback, so that the file sounds the same at any speed of the machine.
        # A speech that had to wait repeats them from the cache.
        may_stall = not self.is_promised
        if self._playback.starts_when_complete or not (may_stall or is_first):
            end = self._context.boundary_cache.get((spoken_text(tokens), self._voice.language))
            known = next((place for place in places if place.end == end), None)
            if known and (self._playback.starts_when_complete or self._is_cached(tokens, known)):
                return known
        if is_first:
            cached = self._cached_first(tokens, places)
            return cached or first_boundary(places, self.rate, may_stall=may_stall)
        rate = self.rate.shared(self._context.synthesizing)
        # The end of the hold is noticed after a segment: a long one would prolong it.
        buffered_s = min(self._buffered_s(), self._wait_s) if self.is_held else self._buffered_s()
        return next_boundary(places, rate, buffered_s, may_stall=may_stall)

    async def _joined(self, end: Boundary, sound: Samples) -> Segment:
        text = "".join(token.source for token in self.buffer.take(end.end))
        pause = Pause.NONE if self.buffer.ends_speech else end.pause
        join = self._playback.joiner.join
        joined = await self._context.in_side_thread(join, sound, pause, self._speed)
        segment = Segment(self._index, text, joined, work=self._work)
        self._index += 1
        self._sound_s += joined.size / SAMPLE_RATE
        return segment

    def _cached_first(self, tokens: list[Token], places: list[Boundary]) -> Boundary | None:
        """Return the end of the longest first segment that is in the cache."""
        limit = _CACHED_SHARE * max(preferred_first_size(self.rate), places[:2][-1].size)
        for place in reversed([place for place in places if place.size <= limit]):
            if self._is_cached(tokens, place):
                return place
        return None

    def _is_cached(self, tokens: list[Token], place: Boundary) -> bool:
        return self._key(spoken_text(tokens[: place.end])) in self._context.first_segments

    def _key(self, text: str) -> FirstKey:
        return text, self._voice.language, self._voice.name, self._speed

    async def _phonemes(
        self, tokens: list[Token], places: list[Boundary], end: Boundary
    ) -> tuple[Boundary, str]:
        """Return the phonemes of a segment, shortened until the model accepts them."""
        while True:
            text = spoken_text(tokens[: end.end])
            is_known = (text, self._voice.language) in self._context.phoneme_cache
            start = self._context.clock()
            phonemes = await self._context.phonemes(text, self._voice.language)
            self._work.phonemes_s += 0.0 if is_known else self._context.clock() - start
            shorter = middle_boundary([place for place in places if place.end <= end.end])
            if len(phonemes) <= MAX_PHONEMES or shorter is None:
                return end, phonemes
            end = shorter

    async def _infer(
        self, phonemes: str, end: Boundary, is_first: bool, left: Demand | None
    ) -> Samples:
        """Synthesise a segment; one word with too many phonemes needs several inferences.

        `left` is the demand of a speech that must not stall: its deadline leaves time for the rest.
        """
        sounds, lead_s = [], max(0.0, left.cost_s - left.sound_s) if left else 0.0
        for index, part in enumerate(split_phonemes(phonemes)):
            size = end.size * len(part) / len(phonemes)
            result = await self._context.queue.run(
                SynthesisRequest(
                    phonemes=part,
                    styles=self._voice.styles,
                    speed=self._speed,
                    # One endless first word must not occupy the engine.
                    is_first=is_first and not index,
                    deadline=self._context.clock() + self._buffered_s() - lead_s,
                    cost_s=self.rate.cost_s(size),
                    promised_to=self if left else None,
                    is_background=self._playback.is_background,
                )
            )
            sounds.append(await self._trimmed(part, size, result))
        return np.concatenate(sounds) if sounds else np.zeros(0, np.float32)

    async def _trimmed(self, phonemes: str, size: float, result: InferenceResult) -> Samples:
        """Return the sound without its silence, and correct the cost model."""
        sound = await self._context.in_side_thread(trim, result.samples)
        self._inference_s += result.seconds
        self._work.inference_s += result.seconds
        self._context.cost_model.learn(
            InferenceRun(
                language=self._voice.language,
                characters=max(1, round(size)),
                phonemes=len(phonemes),
                speed=self._speed,
                seconds=result.seconds,
                sound_s=sound.size / SAMPLE_RATE,
            )
        )
        return sound

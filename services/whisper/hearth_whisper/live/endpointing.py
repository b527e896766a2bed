"""Endpointing: where speech starts and ends, from the VAD's probabilities; no clock, no audio.

All positions are samples of the stream, counted from its start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hearth_whisper.recognition import SAMPLE_RATE

FRAME = 512
"""Samples per decision of the VAD."""
BLOCK = 128
"""Samples per measurement of the loudness."""
START_THRESHOLD, END_THRESHOLD = 0.5, 0.35
"""Speech starts at one probability and goes on until it falls below the other."""
PAUSE_MS = 200
"""The silence after which the text is recognised, in case speech does not resume."""
PRE_ROLL = SAMPLE_RATE // 4
"""Audio before the detected start: the first sound is often too soft to be detected."""
MAX_UTTERANCE = 28 * SAMPLE_RATE
"""The longest utterance: Whisper's window has 30 s."""
_CUT_RANGE = 10 * SAMPLE_RATE
_LONG_UTTERANCE = 15 * SAMPLE_RATE
"""A longer utterance is cut at a pause: its text was recognised in it, and is not lost."""
# One frame may be a click; two in a row are speech.
_START_FRAMES = 2
# The VAD reports speech beyond its end. Where the room is as silent again as before, the loudness
# gives the end. The correction is bounded, since a soft voice after a bang is speech.
_MAX_LAG = 96 * SAMPLE_RATE // 1000
_SILENCE_RATIO = 0.01
"""Of the loudest block; softer blocks are inaudible beside it."""
_NOISE_RATIO, _NOISE_RATE = 1.5, 0.05
_MAX_BATCH = 4
_CUT_WIDTH = 12
"""Blocks that are compared together: 12 of 8 ms are as long as a short pause."""


@dataclass(frozen=True, slots=True)
class VadFrame:
    """The probability of speech in one frame, and the loudness of its blocks."""

    probability: float
    levels: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Speech has started; `cut` where it continues the previous utterance."""

    utterance: int
    speech_start: int
    audio_start: int
    """Where the audio to recognise starts."""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class SpeechPaused:
    """A short silence; if it lasts, the utterance ends at `speech_end`."""

    utterance: int
    speech_end: int
    audio_end: int
    """Where the audio to recognise ends."""


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """Speech goes on after a pause."""

    utterance: int


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The utterance is over; `cut` where speech goes on in the next one."""

    utterance: int
    speech_end: int
    audio_end: int
    cut: bool = False


SpeechEvent = SpeechStarted | SpeechPaused | SpeechResumed | SpeechEnded


@dataclass(slots=True)
class _OpenUtterance:
    number: int
    speech_start: int
    audio_start: int
    voiced: int
    """The end of the last frame with speech."""
    loud: int
    """The end of the last loud block."""
    paused: int | None = None
    peak: float = 0.0
    levels_start: int = 0
    """The position of the first of `levels`."""
    levels: list[float] = field(default_factory=list)

    @property
    def speech_end(self) -> int:
        return max(min(self.voiced, self.loud), self.voiced - _MAX_LAG)


class Endpointer:
    """Turns frames into events; each utterance has one start and one end, in order."""

    def __init__(self, end_of_speech_ms: int = 500) -> None:
        """Take the silence that ends an utterance."""
        self._end_after = end_of_speech_ms * SAMPLE_RATE // 1000
        self._pause_after = min(PAUSE_MS * SAMPLE_RATE // 1000, self._end_after)
        self._position = self._run = self._count = self._earliest_start = self._ignore_until = 0
        self._open: _OpenUtterance | None = None
        self._noise = 0.0
        """The loudness while there is no speech."""

    @property
    def batch_frames(self) -> int:
        """How many frames may be processed together without delaying an event."""
        current = self._open
        if current is None:
            return 1 if self._run else _START_FRAMES
        if current.paused is not None:
            until_resumed = 1 if self._run else _START_FRAMES
            return min(until_resumed, self._frames_until(current.speech_end + self._end_after))
        end = current.voiced - _MAX_LAG if self._run else current.speech_end
        return min(_MAX_BATCH, self._frames_until(end + self._pause_after))

    def process(self, frame: VadFrame) -> list[SpeechEvent]:
        """Take the next frame; return the events that follow from it."""
        self._position += FRAME
        threshold = END_THRESHOLD if self._run else START_THRESHOLD
        is_speech = frame.probability >= threshold and self._position > self._ignore_until
        self._run = self._run + 1 if is_speech else 0
        current = self._open
        if current is None:
            if not self._run and frame.levels:
                level = sum(frame.levels) / len(frame.levels)
                self._noise += _NOISE_RATE * (level - self._noise)
            return [self._start(frame.levels)] if self._run >= _START_FRAMES else []
        self._add_levels(current, frame.levels)
        events: list[SpeechEvent] = []
        if self._run and (current.paused is None or self._run >= _START_FRAMES):
            if current.paused is not None:
                if self._position - current.audio_start >= _LONG_UTTERANCE:
                    return self._split(current, current.paused, frame.levels)
                current.paused = None
                events.append(SpeechResumed(current.number))
            current.voiced = self._position
        if self._position - current.audio_start >= MAX_UTTERANCE:
            return events + self._cut(current)
        return events + self._silence(current)

    def flush(self, audio_end: int) -> list[SpeechEvent]:
        """End the open utterance at once; it contains the audio until `audio_end`."""
        current, self._run = self._open, 0
        if current is None:
            return []
        events = self._end(current, current.paused or audio_end)
        # The next utterance must contain neither this audio nor its echo in the VAD. Speech that
        # goes on is not lost: the pre-roll is longer.
        self._earliest_start, self._ignore_until = audio_end, audio_end + _MAX_LAG + FRAME
        return events

    def _start(self, levels: Sequence[float], *, cut: bool = False) -> SpeechEvent:
        speech_start = self._position - self._run * FRAME
        audio_start = max(self._earliest_start, speech_start - PRE_ROLL, 0)
        self._count += 1
        self._open = _OpenUtterance(
            self._count,
            speech_start,
            audio_start,
            voiced=self._position,
            loud=self._position,
            levels_start=self._position - FRAME,
        )
        self._add_levels(self._open, levels)
        return SpeechStarted(self._count, speech_start, audio_start, cut)

    def _add_levels(self, current: _OpenUtterance, levels: Sequence[float]) -> None:
        start = self._position - FRAME
        for index, level in enumerate(levels):
            current.peak = max(current.peak, level)
            if level > max(_SILENCE_RATIO * current.peak, _NOISE_RATIO * self._noise):
                current.loud = start + (index + 1) * BLOCK
        if not levels:
            current.loud = self._position
        current.levels += levels or [0.0] * (FRAME // BLOCK)

    def _silence(self, current: _OpenUtterance) -> list[SpeechEvent]:
        # A single frame of speech does not resume yet, but keeps the utterance open.
        if self._run:
            return []
        # Rounded to the nearest frame, so that on average no event is late.
        silence = self._position - current.speech_end + FRAME // 2
        events: list[SpeechEvent] = []
        if current.paused is None and silence >= self._pause_after:
            current.paused = self._position
            events.append(SpeechPaused(current.number, current.speech_end, self._position))
        if current.paused is not None and silence >= self._end_after:
            events += self._end(current, current.paused)
        return events

    def _end(
        self, current: _OpenUtterance, audio_end: int, *, cut: bool = False
    ) -> list[SpeechEvent]:
        speech_end = min(current.speech_end, audio_end)
        self._open, self._earliest_start = None, speech_end
        return [SpeechEnded(current.number, speech_end, audio_end, cut)]

    def _split(
        self, current: _OpenUtterance, audio_end: int, levels: Sequence[float]
    ) -> list[SpeechEvent]:
        events = self._end(current, audio_end, cut=True)
        self._earliest_start = audio_end
        return [*events, self._start(levels, cut=True)]

    def _cut(self, current: _OpenUtterance) -> list[SpeechEvent]:
        if current.paused is not None:
            return self._end(current, current.paused)
        first = max(current.levels_start, self._position - _CUT_RANGE)
        index = (first - current.levels_start) // BLOCK
        cut = current.levels_start + (index + quietest(current.levels[index:])) * BLOCK
        if cut >= current.speech_end:
            return self._end(current, self._position)
        self._count += 1
        self._open = _OpenUtterance(
            self._count,
            cut,
            cut,
            voiced=current.voiced,
            loud=current.loud,
            peak=current.peak,
            levels_start=cut,
            levels=current.levels[(cut - current.levels_start) // BLOCK :],
        )
        return [
            SpeechEnded(current.number, cut, cut, cut=True),
            SpeechStarted(self._count, cut, cut, cut=True),
        ]

    def _frames_until(self, due: int) -> int:
        return max(1, -(-(due - FRAME // 2 - self._position) // FRAME))


def quietest(levels: Sequence[float]) -> int:
    """Return the index in the middle of the quietest place; of equals, the last."""
    width = min(_CUT_WIDTH, len(levels))
    powers = [level * level for level in levels]
    total = least = sum(powers[:width])
    best = 0
    for start in range(1, len(levels) - width + 1):
        total += powers[start + width - 1] - powers[start - 1]
        # A running sum differs from an equal one in its last digits.
        if total <= least + 1e-12:
            best, least = start, min(total, least)
    return best + width // 2

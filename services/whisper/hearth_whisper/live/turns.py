"""When somebody speaks and when no more: frames of probability in, cues out; no clock, no sound.

All positions are samples of the stream, counted from its beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hearth_whisper.live.quiet import quietest
from hearth_whisper.recognising import SAMPLE_RATE

FRAME = 512
"""Samples that the VAD judges at once."""
BLOCK = 128
"""Samples whose loudness is measured at once."""
ON, OFF = 0.5, 0.35
"""Speech begins at one probability and goes on until it falls under the other."""
PAUSE_MS = 200
"""After so much silence the text is made, in case nobody speaks again."""
PRE_ROLL = SAMPLE_RATE // 4
"""What is heard before speech was noticed: its first sound is often too soft to be noticed."""
LONGEST = 28 * SAMPLE_RATE
"""An utterance beyond this is cut: Whisper hears 30 s at once."""
_CUT_WITHIN = 10 * SAMPLE_RATE
_LONG = 15 * SAMPLE_RATE
"""An utterance beyond this is cut where somebody pauses: its text is made by then, and not lost."""
# One frame may be a click; two in a row are somebody.
_SURE = 2
# The VAD goes on hearing what has just ended. Where the room is as silent again as before, loudness
# says when it ended; only so much is believed of it, since a soft voice after a bang is speech.
_LAG = 96 * SAMPLE_RATE // 1000
_SILENT = 0.01
"""Of the loudest block: what is softer is not heard beside it."""
_ABOVE_ROOM, _ROOM_PACE = 1.5, 0.05
_MOST_FRAMES = 4


@dataclass(frozen=True, slots=True)
class Frame:
    """What was heard in one frame: how surely it is speech, and the loudness of its blocks."""

    probability: float
    levels: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """Somebody speaks since `at`; the sound to hear begins at `begin`."""

    utterance: int
    at: int
    begin: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """Nobody has spoken for a while; if it stays so, all was said by `upto`."""

    utterance: int
    at: int
    upto: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """It was but a pause."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The utterance is over: speech until `at`, the sound to hear until `upto`."""

    utterance: int
    at: int
    upto: int
    cut: bool = False


Cue = Started | Paused | Resumed | Ended


@dataclass(slots=True)
class _Utterance:
    number: int
    at: int
    begin: int
    voiced: int
    """The end of the last frame that was speech."""
    loud: int
    """The end of the last block that was loud."""
    paused: int | None = None
    peak: float = 0.0
    since: int = 0
    """Where `levels` begin."""
    levels: list[float] = field(default_factory=list)

    @property
    def end(self) -> int:
        return max(min(self.voiced, self.loud), self.voiced - _LAG)


class Turns:
    """Tells from frame to frame who is to be heard; an utterance is told once and in order."""

    def __init__(self, end_of_speech_ms: int = 500) -> None:
        """Take how long a silence ends an utterance."""
        self._end_after = end_of_speech_ms * SAMPLE_RATE // 1000
        self._pause_after = min(PAUSE_MS * SAMPLE_RATE // 1000, self._end_after)
        self._position = self._run = self._count = self._floor = self._deaf_until = 0
        self._said: _Utterance | None = None
        self._room = 0.0
        """How loud it is while nobody speaks."""

    @property
    def patience(self) -> int:
        """How many frames may be judged together without anything being told later for it."""
        said = self._said
        if said is None or said.paused is not None:
            soon = 1 if self._run else _SURE
            return soon if said is None else min(soon, self._frames_to(said.end + self._end_after))
        end = said.voiced - _LAG if self._run else said.end
        return min(_MOST_FRAMES, self._frames_to(end + self._pause_after))

    def hear(self, frame: Frame) -> list[Cue]:
        """Take the next frame; return what follows from it."""
        self._position += FRAME
        threshold = OFF if self._run else ON
        is_speech = frame.probability >= threshold and self._position > self._deaf_until
        self._run = self._run + 1 if is_speech else 0
        said = self._said
        if said is None:
            if not self._run and frame.levels:
                level = sum(frame.levels) / len(frame.levels)
                self._room += _ROOM_PACE * (level - self._room)
            return [self._begin(frame.levels)] if self._run >= _SURE else []
        self._note(said, frame.levels)
        cues: list[Cue] = []
        if self._run and (said.paused is None or self._run >= _SURE):
            if said.paused is not None and self._position - said.begin >= _LONG:
                return self._split(said, said.paused, frame.levels)
            said.voiced = self._position
            if said.paused is not None:
                said.paused = None
                cues.append(Resumed(said.number))
        if self._position - said.begin >= LONGEST:
            return cues + self._cut(said)
        return cues + self._silence(said)

    def flush(self, upto: int) -> list[Cue]:
        """End what is being said now; what came by `upto` belongs to it."""
        said, self._run = self._said, 0
        if said is None:
            return []
        cues = self._over(said, said.paused or upto)
        # What was asked for now is not to be heard a second time, nor its echo in the VAD. Who
        # really speaks on is still heard from there: the pre-roll is longer.
        self._floor, self._deaf_until = upto, upto + _LAG + FRAME
        return cues

    def _begin(self, levels: Sequence[float], *, cut: bool = False) -> Cue:
        at = self._position - self._run * FRAME
        begin = max(self._floor, at - PRE_ROLL, 0)
        since = self._position - FRAME
        self._count += 1
        said = _Utterance(self._count, at, begin, self._position, self._position, since=since)
        self._said = said
        self._note(said, levels)
        return Started(said.number, at, begin, cut)

    def _note(self, said: _Utterance, levels: Sequence[float]) -> None:
        begin = self._position - FRAME
        for index, level in enumerate(levels):
            said.peak = max(said.peak, level)
            if level > max(_SILENT * said.peak, _ABOVE_ROOM * self._room):
                said.loud = begin + (index + 1) * BLOCK
        if not levels:
            said.loud = self._position
        said.levels += levels or [0.0] * (FRAME // BLOCK)

    def _silence(self, said: _Utterance) -> list[Cue]:
        # Whoever has just begun again is waited for.
        if self._run:
            return []
        # To the nearest frame: on the average, nothing is late.
        silence = self._position - said.end + FRAME // 2
        cues: list[Cue] = []
        if said.paused is None and silence >= self._pause_after:
            said.paused = self._position
            cues.append(Paused(said.number, said.end, self._position))
        if said.paused is not None and silence >= self._end_after:
            cues += self._over(said, said.paused)
        return cues

    def _over(self, said: _Utterance, upto: int, *, cut: bool = False) -> list[Cue]:
        end = min(said.end, upto)
        self._said, self._floor = None, end
        return [Ended(said.number, end, upto, cut)]

    def _split(self, said: _Utterance, upto: int, levels: Sequence[float]) -> list[Cue]:
        ended = self._over(said, upto, cut=True)
        self._floor = upto
        return [*ended, self._begin(levels, cut=True)]

    def _cut(self, said: _Utterance) -> list[Cue]:
        if said.paused is not None:
            return self._over(said, said.paused)
        first = max(said.since, self._position - _CUT_WITHIN)
        index = (first - said.since) // BLOCK
        at = said.since + (index + quietest(said.levels[index:])) * BLOCK
        if at >= said.end:
            return self._over(said, self._position)
        self._count += 1
        levels = said.levels[(at - said.since) // BLOCK :]
        self._said = _Utterance(self._count, at, at, said.voiced, said.loud, None, said.peak)
        self._said.since, self._said.levels = at, levels
        return [Ended(said.number, at, at, cut=True), Started(self._count, at, at, cut=True)]

    def _frames_to(self, due: int) -> int:
        return max(1, -(-(due - FRAME // 2 - self._position) // FRAME))

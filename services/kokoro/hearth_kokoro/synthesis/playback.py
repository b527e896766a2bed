"""Segments as one continuous speech: trimmed, levelled and faded, and how much is buffered."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hearth_kokoro.engines import SAMPLE_RATE, Samples
from hearth_kokoro.text.tokens import Pause

_FRAME = SAMPLE_RATE // 200
"""Samples in 5 ms: the resolution at which sound and silence are distinguished."""
# Relative to the loudest frame: silence is below -45 dB, a voiced frame above -25 dB.
_SILENT, _VOICED = 10 ** (-45 / 20), 10 ** (-25 / 20)
_FLOOR = 1e-5
# Some of the model's silence is kept, so that a soft consonant is not cut off.
_LEAD_FRAMES, _TAIL_FRAMES = 2, 3
_FADE = round(0.006 * SAMPLE_RATE)
_PAUSE_S = {Pause.CLAUSE: 0.12, Pause.SENTENCE: 0.26, Pause.PARAGRAPH: 0.5}
# Slow speech does not need pauses of several seconds.
_LONGEST_STRETCH = 2.0
_MAX_GAIN = 10 ** (3 / 20)
# The reference level covers about 4 seconds of voice, so that speech may still grow softer.
_LEVEL_FRAMES = round(4 * SAMPLE_RATE / _FRAME)


def _frame_levels(samples: Samples) -> npt.NDArray[np.float64]:
    """Return the root mean square of each frame; the last one is padded with silence."""
    padded = np.zeros(-(-samples.size // _FRAME) * _FRAME)
    padded[: samples.size] = samples
    frames = padded.reshape(-1, _FRAME)
    levels: npt.NDArray[np.float64] = np.sqrt(np.mean(np.square(frames), axis=1))
    return levels


def trim(samples: Samples) -> Samples:
    """Remove the silence before and after the sound, except 10 ms and 15 ms."""
    levels = _frame_levels(samples)
    if not levels.size or levels.max() < _FLOOR:
        return samples[:0]
    loud = np.flatnonzero(levels >= levels.max() * _SILENT)
    start = max(0, int(loud[0]) - _LEAD_FRAMES) * _FRAME
    return samples[start : (int(loud[-1]) + 1 + _TAIL_FRAMES) * _FRAME]


def pause_samples(pause: Pause, speed: float) -> int:
    """Return how many samples of silence follow a segment that ends at this pause."""
    stretch = min(_LONGEST_STRETCH, 1 / speed)
    return round(_PAUSE_S.get(pause, 0.0) * stretch * SAMPLE_RATE)


@dataclass(slots=True)
class SegmentJoiner:
    """Adjusts each segment of a speech so that it follows the previous one smoothly."""

    _power: float = 0.0
    _frames: int = 0

    def join(self, trimmed: Samples, pause: Pause, speed: float) -> Samples:
        """Return a trimmed segment at the speech's level, faded at both ends, with its pause."""
        silence = np.zeros(pause_samples(pause, speed), np.float32)
        if not trimmed.size:
            return silence
        sound = trimmed * np.float32(self._gain(trimmed))
        fade = min(_FADE, sound.size // 2)
        slope = (0.5 - 0.5 * np.cos(np.pi * np.arange(fade) / max(1, fade))).astype(np.float32)
        sound[:fade] *= slope
        sound[sound.size - fade :] *= slope[::-1]
        return np.concatenate([sound, silence]) if silence.size else sound

    def _gain(self, sound: Samples) -> float:
        """Return the gain that brings a segment to the level of the previous ones."""
        levels = _frame_levels(sound)
        voiced = np.square(levels[levels >= levels.max() * _VOICED])
        power = float(voiced.mean())
        if power <= _FLOOR**2:
            return 1.0
        gain = float(np.sqrt(self._power / power)) if self._frames else 1.0
        gain = min(_MAX_GAIN, max(1 / _MAX_GAIN, gain))
        gain = min(gain, 0.999 / float(np.abs(sound).max()))
        known = min(self._frames, _LEVEL_FRAMES)
        played = gain * gain * power
        self._power = (self._power * known + played * voiced.size) / (known + voiced.size)
        self._frames += int(voiced.size)
        return gain


@dataclass(slots=True)
class Playback:
    """A client that plays all segments without a break, from the moment it receives the first.

    A client that plays nothing before the last segment has `starts_when_complete`: no segment is
    late for it. One that is `early` gets its first sound at once, even where it will stall.
    `on_hold` is called while its sound is held back, with the seconds that it will take. Nobody
    waits for one that `is_background`: it is synthesised while nobody else speaks.
    """

    starts_when_complete: bool = False
    early: bool = False
    on_hold: Callable[[float], None] = lambda _: None
    is_background: bool = False
    held_s: float = 0.0
    """Seconds of sound that are held back."""
    joiner: SegmentJoiner = field(default_factory=SegmentJoiner)
    _ends_at: float = float("-inf")

    def add(self, samples: Samples, now: float) -> None:
        """Record that these samples play after everything that was added before."""
        self._ends_at = max(now, self._ends_at) + samples.size / SAMPLE_RATE

    def buffered_s(self, now: float) -> float:
        """Return how many seconds of sound are left to play, with those held back; at least 0."""
        return max(0.0, self._ends_at - now) + self.held_s

"""Joins pieces into one speech: no silence of the model's own, no click, no jump of level."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hearth_kokoro.engines import SAMPLE_RATE, Samples
from hearth_kokoro.text.token import Pause

_FRAME = SAMPLE_RATE // 200
"""Samples of 5 ms: the grain in which sound and silence are told apart."""
# Against the loudest frame: silence is below -45 dB, a voiced frame above -25 dB.
_SILENT, _VOICED = 10 ** (-45 / 20), 10 ** (-25 / 20)
_FLOOR = 1e-5
# What is kept of the model's silence, so that a soft consonant is not cut off.
_LEAD_FRAMES, _TAIL_FRAMES = 2, 3
_FADE = round(0.006 * SAMPLE_RATE)
_PAUSE_S = {Pause.CLAUSE: 0.12, Pause.SENTENCE: 0.26, Pause.PARAGRAPH: 0.5}
# Very slow speech needs no pauses of seconds.
_LONGEST_STRETCH = 2.0
_MAX_GAIN = 10 ** (3 / 20)
# The level is that of about the last seconds of voice, so that speech may still grow softer.
_REMEMBERED = round(4 * SAMPLE_RATE / _FRAME)


def _levels(samples: Samples) -> npt.NDArray[np.float64]:
    """Return the root mean square of each whole or begun frame."""
    padded = np.zeros(-(-samples.size // _FRAME) * _FRAME)
    padded[: samples.size] = samples
    frames = padded.reshape(-1, _FRAME)
    levels: npt.NDArray[np.float64] = np.sqrt(np.mean(np.square(frames), axis=1))
    return levels


def trim(samples: Samples) -> Samples:
    """Return the sound without the silence before and after it, but for 10 and 15 ms."""
    levels = _levels(samples)
    if not levels.size or levels.max() < _FLOOR:
        return samples[:0]
    loud = np.flatnonzero(levels >= levels.max() * _SILENT)
    start = max(0, int(loud[0]) - _LEAD_FRAMES) * _FRAME
    return samples[start : (int(loud[-1]) + 1 + _TAIL_FRAMES) * _FRAME]


def pause_samples(pause: Pause, speed: float) -> int:
    """Return how many samples of silence follow a piece that was cut at such a pause."""
    stretch = min(_LONGEST_STRETCH, 1 / speed)
    return round(_PAUSE_S.get(pause, 0.0) * stretch * SAMPLE_RATE)


@dataclass(slots=True)
class Joiner:
    """Makes each piece of one speech ready to follow the one before it."""

    _power: float = 0.0
    _frames: int = 0

    def join(self, trimmed: Samples, pause: Pause, speed: float) -> Samples:
        """Return a trimmed piece at the speech's level, faded at both ends, with its pause."""
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
        """Return what brings a piece to the level of the last ones; one piece moves it little."""
        levels = _levels(sound)
        voiced = np.square(levels[levels >= levels.max() * _VOICED])
        power = float(voiced.mean())
        if power <= _FLOOR**2:
            return 1.0
        gain = float(np.sqrt(self._power / power)) if self._frames else 1.0
        gain = min(_MAX_GAIN, max(1 / _MAX_GAIN, gain))
        gain = min(gain, 0.999 / float(np.abs(sound).max()))
        known = min(self._frames, _REMEMBERED)
        heard = gain * gain * power
        self._power = (self._power * known + heard * voiced.size) / (known + voiced.size)
        self._frames += int(voiced.size)
        return gain

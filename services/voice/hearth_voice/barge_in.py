"""Whether a sound interrupts the house: open speech does; a cough, a hum and distant talk do not.

A detector of voices cannot tell "mhm" from "no". But a hum has hardly any sound above its lowest
formant, a cough hardly any pitch, and talk in the next room is softer than the talker before it.
"""

from collections import deque

import numpy as np

from hearth_voice.settings import SAMPLE_RATE

_HOP = SAMPLE_RATE // 50
"""Samples between two measurements: 20 ms."""
_WINDOW = 2 * _HOP
_PITCH = (SAMPLE_RATE // 400, SAMPLE_RATE // 80)
"""Periods of voices, in samples."""
_NEEDED = 3
"""Open frames among the last `_AMONG`: 60 ms of a vowel."""
_AMONG = 6
_KEPT = SAMPLE_RATE // _HOP
_MIN_PITCH, _MIN_OPENNESS = 0.5, 0.12
_QUIETER = 10 ** (-12 / 20)
"""Softer than the talker was by so much is somebody else."""
_FLOOR = 0.004
"""Of full scale; softer is not speech into this microphone."""
_TAPER = np.hanning(_WINDOW)
_LOW = np.fft.rfftfreq(2 * _WINDOW, 1 / SAMPLE_RATE)
_BODY = (_LOW >= 80) & (_LOW < 4000)
_OPEN = (_LOW >= 550) & (_LOW < 4000)


class BargeIn:
    """Measures the talker's sound, frame by frame."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float64)
        self._frames: deque[tuple[int, bool]] = deque(maxlen=_KEPT)
        """The end of each of the last frames, and whether it is open speech."""
        self._position = 0
        self._level = 0.0
        """How loud the talker is."""

    def add(self, sound: bytes, *, is_talker: bool) -> None:
        """Take the next sound; `is_talker` while it is known to be the talker's speech."""
        samples = np.frombuffer(sound, "<i2").astype(np.float64) / 32768
        self._rest = np.concatenate([self._rest, samples])
        while self._rest.size >= _WINDOW:
            self._measure(self._rest[:_WINDOW], is_talker)
            self._rest = self._rest[_HOP:]
            self._position += _HOP

    def is_speech(self, since: int) -> bool:
        """Return whether there was open speech after this sample."""
        flags = [is_open for end, is_open in self._frames if end > since]
        return any(sum(flags[at : at + _AMONG]) >= _NEEDED for at in range(len(flags)))

    def _measure(
        self, frame: np.ndarray[tuple[int], np.dtype[np.float64]], is_talker: bool
    ) -> None:
        level = float(np.sqrt(np.mean(frame**2)))
        is_open = level > max(_FLOOR, _QUIETER * self._level) and _is_open(frame)
        if is_talker and is_open:
            # The loud vowels count: a voice is compared with them.
            self._level += (0.3 if level > self._level else 0.02) * (level - self._level)
        self._frames.append((self._position + _WINDOW, is_open))


def _is_open(frame: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Return whether a frame has a pitch, and sound above its lowest formant."""
    power = np.abs(np.fft.rfft(frame * _TAPER, 2 * _WINDOW)) ** 2
    body = float(power[_BODY].sum())
    if not body or float(power[_OPEN].sum()) / body < _MIN_OPENNESS:
        return False
    period = np.fft.irfft(np.where(_BODY, power, 0))
    first, last = _PITCH
    # The taper weakens longer periods; its own correlation is divided out.
    peak = float((period[first:last] / _TAPER_CORRELATION[first:last]).max())
    return peak >= _MIN_PITCH * float(period[0] / _TAPER_CORRELATION[0])


_TAPER_CORRELATION = np.fft.irfft(np.abs(np.fft.rfft(_TAPER, 2 * _WINDOW)) ** 2)

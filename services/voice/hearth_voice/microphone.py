"""The microphone of a call without the house's own voice: WebRTC's echo canceller.

Its reference is what was sent to the client, at the pace of the microphone. The canceller finds
the delay between both, which the network and the client's buffers add, by itself. Until it has, it
is so careful that it also removes the talker. So its result is used only while the microphone
really hears the house: with headphones it never does.
"""

import time
from collections import deque

import numpy as np
from livekit.rtc import AudioFrame
from livekit.rtc.apm import AudioProcessingModule

from hearth_voice.settings import SAMPLE_RATE

Samples = np.ndarray[tuple[int], np.dtype[np.float64]]

_FRAME = SAMPLE_RATE // 100
"""Samples that the canceller takes at once: 10 ms."""
_BYTES = 2 * _FRAME
_TAIL_S = 2.0
"""How long after its end a room and a slow client may still send the house's voice back."""


_COARSE = 3
"""The likeness is measured at a third of the sample rate."""
_SEEN = SAMPLE_RATE // _COARSE * 3 // 10
"""Coarse samples of the microphone that are compared: 0.3 s."""
_SEARCHED = SAMPLE_RATE // _COARSE * 13 // 10
"""Those of the reference: a delay of up to 1 s."""
_ALIKE = 0.4
"""Other speech, also with a similar pitch, is less alike."""
_EVERY = 2
"""Frames between two comparisons."""
_SURE, _HELD = 10, 300
"""After so many comparisons in a row, the house is taken to be heard for so many frames.

A cough hides it for a moment, and must not let it through.
"""


class Microphone:
    """Removes from the talker's sound what the house says; without any, sound passes unchanged."""

    def __init__(self) -> None:
        self._canceller: AudioProcessingModule | None = None
        self._reference = bytearray()
        self._rest = bytearray()
        self._active_until = 0.0
        self._seen, self._played = _Past(_SEEN), _Past(_SEARCHED)
        self._frames = self._alike = self._held_until = 0
        self._hears_house = False
        self.is_paused = False
        """Whether the client plays nothing now, and later what it has."""

    def plays(self, sound: bytes) -> None:
        """Take sound that the client plays after all that it got before."""
        self._reference += sound

    def stops(self) -> None:
        """Note that the client plays nothing of what it still has."""
        self._reference.clear()
        self.is_paused = False

    def hear(self, sound: bytes) -> bytes:
        """Return the talker's sound of whole frames; the rest follows with the next."""
        now = time.monotonic()
        if self._reference:
            self._active_until = now + _TAIL_S
        if now >= self._active_until:
            self._hears_house = False
            # Pass on what waited, too.
            passed = bytes(self._rest) + sound
            self._rest.clear()
            return passed
        if self._canceller is None:
            self._canceller = AudioProcessingModule(echo_cancellation=True)
        self._rest += sound
        whole = len(self._rest) - len(self._rest) % _BYTES
        heard = bytearray()
        for at in range(0, whole, _BYTES):
            heard += self._without_echo(self._canceller, self._rest[at : at + _BYTES])
        del self._rest[:whole]
        return bytes(heard)

    def _without_echo(self, canceller: AudioProcessingModule, frame: bytearray) -> bytearray:
        size = 0 if self.is_paused else _BYTES
        played = self._reference[:size]
        del self._reference[:size]
        played += bytes(_BYTES - len(played))
        self._seen.add(frame)
        self._played.add(played)
        self._frames += 1
        if self._frames % _EVERY == 0:
            is_alike = likeness(self._seen.samples, self._played.samples) >= _ALIKE
            self._alike = self._alike + 1 if is_alike else 0
            if self._alike >= _SURE:
                self._held_until = self._frames + _HELD
            self._hears_house = is_alike or self._frames < self._held_until
        raw = bytearray(frame)
        canceller.process_reverse_stream(AudioFrame(played, SAMPLE_RATE, 1, _FRAME))
        canceller.process_stream(AudioFrame(frame, SAMPLE_RATE, 1, _FRAME))
        return frame if self._hears_house else raw


class _Past:
    """The last samples of a sound, coarse, with the weight on the consonants."""

    def __init__(self, size: int) -> None:
        self.samples: Samples = np.zeros(size)
        self._last = 0.0

    def add(self, frame: bytes | bytearray) -> None:
        """Append 10 ms."""
        fine = np.frombuffer(frame, "<i2").astype(np.float64)
        coarse = fine.reshape(-1, _COARSE).mean(axis=1)
        # Without this, all voices are alike: their energy is in their pitch.
        sharp = coarse - 0.95 * np.concatenate([[self._last], coarse[:-1]])
        self._last = coarse[-1]
        self.samples = np.concatenate([self.samples[sharp.size :], sharp])


def likeness(seen: Samples, played: Samples) -> float:
    """Return the highest normalised correlation of `seen` with any part of `played`, 0 to 1."""
    size = 1 << (seen.size + played.size - 1).bit_length()
    spectrum = np.fft.rfft(played, size) * np.conj(np.fft.rfft(seen, size))
    products = np.fft.irfft(spectrum, size)[: played.size - seen.size + 1]
    sums = np.concatenate([[0.0], np.cumsum(played**2)])
    energies = sums[seen.size :] - sums[: -seen.size]
    # Where hardly anything was played, anything is alike.
    energies = np.maximum(energies, 0.02 * float(energies.max()) + 1.0)
    own = float(seen @ seen) + 1.0
    return float(np.abs(products / np.sqrt(energies * own)).max())


class Recent:
    """The last seconds of a call's sound, and when it arrived."""

    def __init__(self, seconds: float) -> None:
        self._most = int(seconds * SAMPLE_RATE)
        self._sound = bytearray()
        self._arrivals: deque[tuple[int, float]] = deque()
        self.end = 0
        """How many samples there were altogether."""

    def add(self, sound: bytes) -> None:
        """Append sound that arrives now."""
        self._sound += sound
        self.end += len(sound) // 2
        if len(self._sound) > 4 * self._most:
            del self._sound[: len(self._sound) - 2 * self._most]
        self._arrivals.append((self.end, time.monotonic()))
        while self._arrivals[0][0] < self.end - self._most:
            self._arrivals.popleft()

    def between(self, start: int, end: int) -> bytes:
        """Return the sound between two positions, as far as it is kept."""
        first = self.end - len(self._sound) // 2
        return bytes(self._sound[2 * max(0, start - first) : 2 * max(0, end - first)])

    def arrived_at(self, position: int) -> float:
        """Return when the sound at a position arrived; now, if it has not."""
        for end, moment in self._arrivals:
            if end >= position:
                return moment
        return time.monotonic()

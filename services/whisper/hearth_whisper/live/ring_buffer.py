"""The sound of a stream that may still be needed, and when it arrived."""

from collections import deque

import numpy as np

from hearth_whisper.recognising import SAMPLE_RATE, Samples

# No silence that ends an utterance is longer, and no latency is asked for further back.
_REMEMBERED = 30 * SAMPLE_RATE


class RingBuffer:
    """Sound by its position in the stream; what was forgotten is gone."""

    def __init__(self) -> None:
        """Begin at position 0."""
        self._sound = np.zeros(SAMPLE_RATE, np.float32)
        self._first = self.end = 0
        self._arrivals: deque[tuple[int, float]] = deque()

    def add(self, samples: Samples, now: float) -> None:
        """Append what arrived now."""
        held = self.end - self._first
        if held + samples.size > self._sound.size:
            grown = np.zeros(max(2 * held, held + samples.size), np.float32)
            grown[:held] = self._sound[:held]
            self._sound = grown
        self._sound[held : held + samples.size] = samples
        self.end += samples.size
        self._arrivals.append((self.end, now))
        while self._arrivals[0][0] < self.end - _REMEMBERED:
            self._arrivals.popleft()

    def between(self, begin: int, end: int) -> Samples:
        """Return a copy of the sound from one position to the other."""
        return self._sound[begin - self._first : end - self._first].copy()

    def forget(self, before: int) -> None:
        """Let go of what is before a position; what is held moves only once in a while."""
        gone, held = before - self._first, self.end - before
        if gone < max(SAMPLE_RATE, held):
            return
        self._sound = np.concatenate(
            [self._sound[gone : gone + held], np.zeros(SAMPLE_RATE, np.float32)]
        )
        self._first = before

    def arrived(self, position: int) -> float:
        """Return when the sound before this position was here."""
        for end, when in self._arrivals:
            if end >= position:
                return when
        return self._arrivals[-1][1] if self._arrivals else 0.0

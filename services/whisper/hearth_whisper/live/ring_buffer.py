"""The audio of a stream that may still be needed, and when it arrived."""

from collections import deque

import numpy as np

from hearth_whisper.recognition import SAMPLE_RATE, Samples

# No silence that ends an utterance is longer, and no latency refers to an earlier arrival.
_ARRIVALS_KEPT = 30 * SAMPLE_RATE


class RingBuffer:
    """Audio by its position in the stream, until it is discarded."""

    def __init__(self) -> None:
        self._samples = np.zeros(SAMPLE_RATE, np.float32)
        self._start = self.end = 0
        self._arrivals: deque[tuple[int, float]] = deque()

    def append(self, samples: Samples, now: float) -> None:
        """Append audio that arrived now."""
        held = self.end - self._start
        if held + samples.size > self._samples.size:
            grown = np.zeros(max(2 * held, held + samples.size), np.float32)
            grown[:held] = self._samples[:held]
            self._samples = grown
        self._samples[held : held + samples.size] = samples
        self.end += samples.size
        self._arrivals.append((self.end, now))
        while self._arrivals[0][0] < self.end - _ARRIVALS_KEPT:
            self._arrivals.popleft()

    def between(self, start: int, end: int) -> Samples:
        """Return a copy of the audio between two positions."""
        return self._samples[start - self._start : end - self._start].copy()

    def discard(self, before: int) -> None:
        """Discard the audio before a position; the rest moves only once in a while."""
        gone, held = before - self._start, self.end - before
        if gone < max(SAMPLE_RATE, held):
            return
        self._samples = np.concatenate(
            [self._samples[gone : gone + held], np.zeros(SAMPLE_RATE, np.float32)]
        )
        self._start = before

    def arrived_at(self, position: int) -> float:
        """Return when the audio before this position arrived."""
        for end, when in self._arrivals:
            if end >= position:
                return when
        return self._arrivals[-1][1] if self._arrivals else 0.0

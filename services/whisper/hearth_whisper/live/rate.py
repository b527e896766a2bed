"""Int16 of any rate and in any pieces becomes samples at Whisper's rate."""

import av
import numpy as np

from hearth_whisper.recognising import SAMPLE_RATE, Samples

LOWEST_RATE, HIGHEST_RATE = 8_000, 48_000


class Pcm:
    """Reads little-endian Int16, mono; pieces may end in the middle of a sample."""

    def __init__(self, rate: int = SAMPLE_RATE) -> None:
        """Take the rate of what comes, from LOWEST_RATE to HIGHEST_RATE."""
        self._rate, self._odd = rate, b""
        self._resampler = (
            None
            if rate == SAMPLE_RATE
            else av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
        )

    def read(self, data: bytes) -> Samples:
        """Return the samples that are whole now; the resampler keeps 2 ms until more comes."""
        whole = self._odd + data
        even = len(whole) & ~1
        self._odd = whole[even:]
        samples = np.frombuffer(whole[:even], "<i2")
        if self._resampler is None or not samples.size:
            return samples.astype(np.float32) / np.float32(32768)
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self._rate
        made = [part.to_ndarray()[0] for part in self._resampler.resample(frame)]
        return np.concatenate([np.zeros(0, np.float32), *made])

"""Raw PCM of any usual rate, in chunks of any size, becomes samples at Whisper's rate."""

from collections.abc import Container, Mapping
from typing import Any

import av
import numpy as np

from hearth_serving.errors import ServiceError
from hearth_whisper.recognition import SAMPLE_RATE, Samples

MIN_RATE, MAX_RATE = 8_000, 48_000
RATES = range(MIN_RATE, MAX_RATE + 1)
WIDTHS: Mapping[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
"""Bytes per sample; a single byte is unsigned, as in a WAV file."""
CHANNELS = range(1, 9)
_LEVELS = 32_768


class PcmResampler:
    """Reads little-endian Int16, mono; chunks may end in the middle of a sample."""

    def __init__(self, rate: int = SAMPLE_RATE) -> None:
        """Take the rate of the input, from MIN_RATE to MAX_RATE."""
        self._rate, self._rest = rate, b""
        self._resampler = (
            None
            if rate == SAMPLE_RATE
            else av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
        )

    def read(self, data: bytes) -> Samples:
        """Return the samples that are complete; the resampler keeps 2 ms until more comes."""
        joined = self._rest + data
        even = len(joined) & ~1
        self._rest = joined[even:]
        samples = np.frombuffer(joined[:even], "<i2")
        if self._resampler is None or not samples.size:
            return samples.astype(np.float32) / np.float32(32768)
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self._rate
        parts = [part.to_ndarray()[0] for part in self._resampler.resample(frame)]
        return np.concatenate([np.zeros(0, np.float32), *parts])


class PcmRecording:
    """Reads one recording of at most `max_s`, of any usual width and number of channels."""

    def __init__(self, max_s: float) -> None:
        self._max_s, self._bytes = max_s, 0
        self._rest = b""
        self._format: tuple[int, int, int] | None = None
        self._resampler = PcmResampler()

    @property
    def seconds(self) -> float:
        """The length of the audio until now."""
        rate, width, channels = self._format or (SAMPLE_RATE, 2, 1)
        return self._bytes / (rate * width * channels)

    def read(self, rate: object, width: object, channels: object, data: bytes) -> Samples:
        """Return the samples of the next chunk that are complete.

        Raises:
            ServiceError: the format is unusual or has changed, or the recording is too long.
        """
        pcm_format = _format(rate, width, channels)
        if self._format is None:
            self._format, self._resampler = pcm_format, PcmResampler(pcm_format[0])
        elif pcm_format != self._format:
            raise _invalid("rate, width and channels must not change within a recording")
        self._bytes += len(data)
        if self.seconds > self._max_s:
            message = f"a recording may have at most {self._max_s:g} s"
            raise ServiceError(message, status=413, code="audio_too_long")
        joined = self._rest + data
        _, width_bytes, count = pcm_format
        size = len(joined) - len(joined) % (width_bytes * count)
        self._rest = joined[size:]
        return self._resampler.read(_mono(joined[:size], width_bytes, count))


def _mono(data: bytes, width: int, channels: int) -> bytes:
    """Return complete samples of any width and number of channels as Int16, mono."""
    if width == 2 and channels == 1:
        return data
    samples = np.frombuffer(data, WIDTHS[width]).reshape(-1, channels)
    mean = samples.mean(axis=1, dtype=np.float64) - (128 if width == 1 else 0)
    scaled = np.round(mean * (_LEVELS / 2 ** (8 * width - 1)))
    return bytes(np.clip(scaled, -_LEVELS, _LEVELS - 1).astype("<i2").tobytes())


def _format(rate: object, width: object, channels: object) -> tuple[int, int, int]:
    return (
        _supported("rate", rate, RATES, f"{MIN_RATE} to {MAX_RATE} Hz"),
        _supported("width", width, WIDTHS, "1, 2 or 4 bytes per sample"),
        _supported("channels", channels, CHANNELS, "1 to 8"),
    )


def _supported(name: str, value: object, supported: Container[int], description: str) -> int:
    # A boolean is an int as well, and a float may equal one.
    if type(value) is not int or value not in supported:
        raise _invalid(f"`{name}` must be {description}")
    return value


def _invalid(message: str) -> ServiceError:
    return ServiceError(message, code="invalid_audio")

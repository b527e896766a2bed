"""What one satellite says until it stops: PCM of any usual kind in, Whisper's 16 kHz mono out."""

from collections.abc import Container, Mapping
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import SAMPLE_RATE, Samples

_Pcm = npt.NDArray[np.int16]

RATES = range(8_000, 48_001)
WIDTHS: Mapping[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
"""Bytes of a sample; a single byte is unsigned, as in a WAV file."""
CHANNELS = range(1, 9)
_LEVELS = 32_768


class Recording:
    """One utterance as it comes, in chunks of any size; it never grows beyond `most_s`."""

    def __init__(self, most_s: float) -> None:
        """Begin with nothing."""
        self._most_s = most_s
        self._pcm = bytearray()
        self._rest = b""
        self._kind: tuple[int, int, int] | None = None
        self._resampler: av.AudioResampler | None = None

    @property
    def seconds(self) -> float:
        """How long it is by now."""
        return len(self._pcm) / 2 / SAMPLE_RATE

    def add(self, rate: object, width: object, channels: object, sound: bytes) -> None:
        """Take the next chunk; raises ServiceError where it is of another kind, or too much."""
        kind = _kind(rate, width, channels)
        if self._kind is None:
            self._kind = kind
            if kind[0] != SAMPLE_RATE:
                self._resampler = av.AudioResampler("s16", "mono", SAMPLE_RATE)
        elif kind != self._kind:
            raise _wrong("the sound changed its rate, width or channels within a recording")
        self._pcm += self._resampled(self._mono(sound)).tobytes()
        if self.seconds > self._most_s:
            message = f"a recording has at most {self._most_s:g} s"
            raise ServiceError(message, status=413, code="audio_too_long")

    def finish(self) -> Samples:
        """Return all of it."""
        if self._resampler is not None:
            # What the filter still holds back; without a frame before, it holds nothing.
            self._pcm += _joined(self._resampler.resample(None) if self._pcm else []).tobytes()
        pcm = np.frombuffer(bytes(self._pcm), np.dtype("<i2"))
        return pcm.astype(np.float32) / np.float32(_LEVELS)

    def _mono(self, sound: bytes) -> _Pcm:
        assert self._kind is not None  # noqa: S101 - add() has set it
        _, width, channels = self._kind
        whole = self._rest + sound
        size = len(whole) - len(whole) % (width * channels)
        self._rest = whole[size:]
        found = np.frombuffer(whole[:size], WIDTHS[width]).reshape(-1, channels)
        if width == 2 and channels == 1:
            mono: _Pcm = found[:, 0].astype(np.int16, copy=False)
            return mono
        mean = found.mean(axis=1, dtype=np.float64) - (128 if width == 1 else 0)
        scaled = np.round(mean * (_LEVELS / 2 ** (8 * width - 1)))
        clipped: _Pcm = np.clip(scaled, -_LEVELS, _LEVELS - 1).astype(np.int16)
        return clipped

    def _resampled(self, pcm: _Pcm) -> _Pcm:
        if self._resampler is None or not pcm.size:
            return pcm
        assert self._kind is not None  # noqa: S101 - add() has set it
        frame = av.AudioFrame.from_ndarray(pcm[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self._kind[0]
        frame.time_base = Fraction(1, self._kind[0])
        return _joined(self._resampler.resample(frame))


def _joined(frames: list[av.AudioFrame]) -> _Pcm:
    parts = [frame.to_ndarray()[0].astype(np.int16, copy=False) for frame in frames]
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)


def _kind(rate: object, width: object, channels: object) -> tuple[int, int, int]:
    return (
        _usual("rate", rate, RATES, "8000 to 48000 Hz"),
        _usual("width", width, WIDTHS, "1, 2 or 4 bytes a sample"),
        _usual("channels", channels, CHANNELS, "1 to 8"),
    )


def _usual(name: str, value: object, usual: Container[int], words: str) -> int:
    # A boolean is an int as well, and a float may equal one.
    if type(value) is not int or value not in usual:
        raise _wrong(f"`{name}` is {words}")
    return value


def _wrong(said: str) -> ServiceError:
    return ServiceError(said, code="invalid_audio")

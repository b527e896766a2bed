"""What one satellite says until it stops: PCM of any usual kind in, Whisper's samples out."""

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from hearth_serving.errors import ServiceError
from hearth_whisper.live.rate import HIGHEST_RATE, LOWEST_RATE, Pcm
from hearth_whisper.recognising import SAMPLE_RATE, Samples

RATES = range(LOWEST_RATE, HIGHEST_RATE + 1)
WIDTHS: Mapping[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
"""Bytes of a sample; a single byte is unsigned, as in a WAV file."""
CHANNELS = range(1, 9)
_LEVELS = 32_768


class Chunks:
    """One utterance as it comes, in chunks of any size, up to `most_s` in all."""

    def __init__(self, most_s: float) -> None:
        """Begin with nothing."""
        self._most_s, self._bytes = most_s, 0
        self._rest = b""
        self._kind: tuple[int, int, int] | None = None
        self._pcm = Pcm()

    @property
    def seconds(self) -> float:
        """How long it is by now."""
        rate, width, channels = self._kind or (SAMPLE_RATE, 2, 1)
        return self._bytes / (rate * width * channels)

    def read(self, rate: object, width: object, channels: object, sound: bytes) -> Samples:
        """Return the samples of the next chunk that are whole now.

        Raises:
            ServiceError: it is no usual sound, of another kind than before, or too much.
        """
        kind = _kind(rate, width, channels)
        if self._kind is None:
            self._kind, self._pcm = kind, Pcm(kind[0])
        elif kind != self._kind:
            raise _wrong("rate, width and channels must not change within a recording")
        self._bytes += len(sound)
        if self.seconds > self._most_s:
            message = f"a recording may have at most {self._most_s:g} s"
            raise ServiceError(message, status=413, code="audio_too_long")
        whole = self._rest + sound
        size = len(whole) - len(whole) % (kind[1] * kind[2])
        self._rest = whole[size:]
        return self._pcm.read(_mono(whole[:size], kind[1], kind[2]))


def _mono(sound: bytes, width: int, channels: int) -> bytes:
    """Return whole samples of any width and number of channels as Int16, mono."""
    if width == 2 and channels == 1:
        return sound
    found = np.frombuffer(sound, WIDTHS[width]).reshape(-1, channels)
    mean = found.mean(axis=1, dtype=np.float64) - (128 if width == 1 else 0)
    scaled = np.round(mean * (_LEVELS / 2 ** (8 * width - 1)))
    return bytes(np.clip(scaled, -_LEVELS, _LEVELS - 1).astype("<i2").tobytes())


def _kind(rate: object, width: object, channels: object) -> tuple[int, int, int]:
    return (
        _usual("rate", rate, RATES, f"{LOWEST_RATE} to {HIGHEST_RATE} Hz"),
        _usual("width", width, WIDTHS, "1, 2 or 4 bytes per sample"),
        _usual("channels", channels, CHANNELS, "1 to 8"),
    )


def _usual(name: str, value: object, usual: Container[int], words: str) -> int:
    # A boolean is an int as well, and a float may equal one.
    if type(value) is not int or value not in usual:
        raise _wrong(f"`{name}` must be {words}")
    return value


def _wrong(said: str) -> ServiceError:
    return ServiceError(said, code="invalid_audio")

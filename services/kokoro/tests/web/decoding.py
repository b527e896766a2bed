"""Decode encoded sound, as a client does."""

import io
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from hearth_kokoro.engines import SAMPLE_RATE, Samples


@dataclass(frozen=True, slots=True)
class Heard:
    """Decoded sound at its own rate."""

    samples: Samples
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def hear(data: bytes, format_name: str) -> Heard:
    """Decode the bytes of one response, complete or truncated."""
    if format_name == "pcm":
        return Heard(_floating(np.frombuffer(data[: len(data) // 2 * 2], "<i2")), 24_000)
    with av.open(io.BytesIO(data), "r") as container:
        parts = [_floating(frame.to_ndarray()[0]) for frame in container.decode(audio=0)]
        rate = container.streams.audio[0].codec_context.sample_rate
    return Heard(np.concatenate(parts or [np.zeros(0, np.float32)]), rate)


def tone(seconds: float, hertz: float = 220) -> Samples:
    """Return a tone at 24 kHz that fades in and out."""
    at = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    edge = np.minimum(1, np.minimum(at, seconds - at) * 100)
    return np.asarray(0.3 * edge * np.sin(2 * np.pi * hertz * at), np.float32)


def _floating(array: npt.NDArray[Any]) -> Samples:
    scale = np.iinfo(array.dtype).max if array.dtype.kind == "i" else 1
    return np.asarray(array / scale, np.float32)

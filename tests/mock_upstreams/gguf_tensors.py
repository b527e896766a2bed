"""Made-up weights whose bytes are the same on every machine and with every numpy.

Only numpy's bit generators promise a stable stream (NEP 19), so floats are made here from their
raw bits and not by numpy's distributions, which may change between releases.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.float16]


@dataclass(slots=True)
class Weights:
    """A source of uniform random tensors, seeded by a model's name."""

    bits: np.random.PCG64

    @classmethod
    def named(cls, name: str) -> Weights:
        """Return the source that belongs to `name`."""
        return cls(np.random.PCG64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])))

    def uniform(self, *shape: int, deviation: float) -> Floats:
        """Return float32 of this shape, mean zero, with this standard deviation."""
        count = int(np.prod(shape))
        raw = self.bits.random_raw(-(-count // 4)).view(np.uint16)[:count]
        # The width of a uniform distribution is its deviation times the square root of twelve.
        scaled = (raw.astype(np.float32) / np.float32(65536) - np.float32(0.5)) * np.float32(
            deviation * 12**0.5
        )
        shaped: Floats = scaled.reshape(shape)
        return shaped

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> Halves:
        """Return a half-precision matrix that keeps the scale of its input, times gain."""
        return self.uniform(rows, columns, deviation=gain / columns**0.5).astype(np.float16)


def ones(count: int) -> Floats:
    """Return the neutral scale of a norm."""
    return np.ones(count, dtype=np.float32)


def zeros(count: int) -> Floats:
    """Return the neutral bias."""
    return np.zeros(count, dtype=np.float32)


def add(writer: Any, tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Add every tensor to a `gguf.GGUFWriter` in order."""
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)

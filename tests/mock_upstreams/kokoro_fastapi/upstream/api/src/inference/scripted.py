"""Stands where upstream has the model: it takes as long as it is set to, and gives a tone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .base import Samples

RATE = 24_000
CHARACTERS_PER_S = 14
# Seconds of work per second of sound, whatever the machine.
REAL_TIME_FACTOR = 0.15
_HERTZ, _LOUD = 220.0, 0.3


@dataclass(frozen=True)
class Tensor:
    """As much of a tensor as is asked for."""

    samples: Samples

    def numpy(self) -> Samples:
        """Return the samples."""
        return self.samples


@dataclass(frozen=True)
class Result:
    """What the pipeline made of one part of the text."""

    graphemes: str
    audio: Tensor | None


class KModel:
    """There is nothing to load."""


@dataclass(frozen=True)
class KPipeline:
    """Splits a text where the pattern says, and speaks each part when it is asked for the next."""

    lang_code: str
    model: KModel

    def __call__(
        self,
        text: str,
        voice: str,
        speed: float = 1.0,
        split_pattern: str | None = r"\n+",
        model: KModel | None = None,
    ) -> Iterator[Result]:
        """Yield one result for each part."""
        parts = re.split(split_pattern, text.strip()) if split_pattern else [text]
        for part in parts:
            if part.strip():
                yield Result(part, _spoken(part, speed))

    def generate_from_tokens(
        self, tokens: str, voice: str, speed: float = 1.0, model: KModel | None = None
    ) -> Iterator[Result]:
        """Yield one result for all tokens."""
        yield Result(tokens, _spoken(tokens, speed))


def _spoken(text: str, speed: float) -> Tensor:
    """Work as long as a model would, without letting anybody else in this thread work."""
    seconds = len(text) / CHARACTERS_PER_S / speed
    time.sleep(seconds * REAL_TIME_FACTOR)
    at = np.arange(round(seconds * RATE)) / RATE
    return Tensor((_LOUD * np.sin(2 * np.pi * _HERTZ * at)).astype(np.float32))

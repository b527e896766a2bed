"""Speech recognition: the types and the interface that every model implements."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

# onnxruntime reads this only while it is imported. The Hugging Face library must not go online
# for a file that is missing in a model's folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

SAMPLE_RATE = 16_000
"""Samples per second of all audio that Whisper processes."""

Samples = npt.NDArray[np.float32]
"""Mono audio, shape [samples], at 16 kHz, within ±1."""
Audio = Samples | Iterable[Samples]
"""Complete audio, or blocks of any size that are pulled one after another."""


class RecognitionCancelled(Exception):
    """The recognition was cancelled because its text is no longer needed."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word; `text` is Whisper's, with its leading space."""

    start_s: float
    end_s: float
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Segment:
    """The text from `start_s` to `end_s`, both inside the audio."""

    start_s: float
    end_s: float
    text: str
    words: tuple[Word, ...] = ()
    avg_logprob: float = 0.0
    no_speech_prob: float = 0.0
    compression_ratio: float = 1.0
    temperature: float = 0.0
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of one recognition."""

    language: str | None = None
    """Whisper's code, like `en`; None detects it."""
    prompt: str = ""
    temperature: float | None = None
    """None is Whisper's own fallback: higher temperatures where a text looks wrong."""
    translate: bool = False
    """Into English."""
    word_timestamps: bool = False
    vad: bool = True
    """Skip audio without speech; not needed where a VAD has cut the audio already."""
    greedy: bool = False
    """A beam of one and no timestamps: for partial results."""


@dataclass(frozen=True, slots=True)
class Recognition:
    """A running recognition: the language, and the segments as they are decoded."""

    language: str | None
    """None for audio without speech."""
    language_probability: float
    segments: Iterator[Segment]


class ModelAccess(Protocol):
    """Decides when a recognition may compute; both methods raise RecognitionCancelled."""

    def __call__(self) -> AbstractContextManager[None]:
        """Return the context of one computation in the model; entering it may block."""
        ...

    def preprocessing(self) -> AbstractContextManager[None]:
        """Return the context of work outside the model that takes much memory."""
        ...


class Recogniser(Protocol):
    """A loaded model; `recognise` blocks, without the GIL while the model computes."""

    name: str
    """The name of its folder."""
    device: str
    """The device in use: cpu or cuda."""
    compute_type: str
    threads: int
    multilingual: bool
    languages: tuple[str, ...]
    memory_bytes: int
    """The memory that loading took; 0 where it cannot be measured."""

    def recognise(self, samples: Samples, options: Options, access: ModelAccess) -> Recognition:
        """Detect the language; iterating decodes the segments. Raises as `access` does."""
        ...

    def benchmark(self, samples: Samples, tokens: int) -> None:
        """Encode one window and decode so many tokens, to measure their cost."""
        ...

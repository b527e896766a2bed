"""What turns sound into text, behind one interface."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

# This house tells nobody: onnxruntime's wheels report sessions unless it is said before they are
# imported, and the hub's library must never look for a model that is not in its folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

SAMPLE_RATE = 16_000
"""Samples per second of everything that Whisper hears."""

Samples = npt.NDArray[np.float32]
"""Mono sound, shape [samples], at 16 kHz, within ±1."""
Sound = Samples | Iterable[Samples]
"""Sound as a whole, or in blocks of any size, which are asked for one after another."""


class Stopped(Exception):
    """The recognition was stopped because nobody wants its text any more."""


class Stop:
    """Says from any thread that nobody wants a text any more."""

    def __init__(self) -> None:
        """Begin unset."""
        self._set = threading.Event()

    def set(self) -> None:
        """Stop it before its next step, or before it begins; a second time does nothing."""
        self._set.set()

    def is_set(self) -> bool:
        """Whether it was stopped."""
        return self._set.is_set()


@dataclass(frozen=True, slots=True)
class Word:
    """One word; `text` is as Whisper says it, its leading space kept."""

    start_s: float
    end_s: float
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Segment:
    """What was said from `start_s` to `end_s`, both inside the sound."""

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
    """What is asked of one recognition."""

    language: str | None = None
    """Whisper's code, like `en`; None finds it."""
    prompt: str = ""
    temperature: float | None = None
    """None is Whisper's own ladder, which tries again where a text looks wrong."""
    translate: bool = False
    """Into English."""
    words: bool = False
    """Times of each word as well."""
    vad: bool = True
    """Leave out what is no speech; for sound that was not cut by its speech already."""
    quick: bool = False
    """One guess instead of the best of several, and no times: for partials."""


@dataclass(frozen=True, slots=True)
class Recognition:
    """A recognition under way: what language it is, and the segments as they come."""

    language: str | None
    """None where nobody spoke."""
    language_probability: float
    segments: Iterator[Segment]


class Step(Protocol):
    """Whoever waits for the text, as the model meets him; both raise Stopped when nobody does."""

    def __call__(self) -> AbstractContextManager[None]:
        """Entered around each computation in the model: waits for its turn."""
        ...

    def beside(self) -> AbstractContextManager[None]:
        """Entered around what is prepared outside the model, and takes memory."""
        ...


class Recogniser(Protocol):
    """A loaded model; `recognise` blocks, without the GIL while the model computes."""

    name: str
    """Its folder's name."""
    device: str
    """What really computes: cpu or cuda."""
    compute_type: str
    threads: int
    multilingual: bool
    languages: tuple[str, ...]
    memory_bytes: int
    """What loading it took; 0 where that cannot be told."""

    def recognise(self, samples: Samples, options: Options, step: Step) -> Recognition:
        """Find the language; the segments come by iterating. Raises Stopped as `step` does."""
        ...

    def speak(self, samples: Samples, tokens: int) -> None:
        """Do what a window of such a length costs; for measuring."""
        ...

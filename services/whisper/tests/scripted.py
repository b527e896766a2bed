"""A deterministic recogniser, whatever the speed of the machine."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hearth_whisper.recognition import (
    SAMPLE_RATE,
    ModelAccess,
    Options,
    Recognition,
    Samples,
    Segment,
    Word,
)

_COUNTED = "one two three four five six seven eight nine ten eleven twelve"
WORDS = tuple(_COUNTED.split())


@dataclass(slots=True)
class ScriptedRecogniser:
    """Returns a word per half second of audio: the same words for the same start.

    With `level`, what is quieter than that says nothing. A window of 30 s is a segment. While
    `gate` is closed, each step waits inside the model; `steps` names each entry into it.
    `texts`, where given, are words instead, one per recognition, in order.
    """

    word_s: float = 0.5
    level: float = 1e-4
    window_s: float = 30.0
    name: str = "scripted"
    device: str = "cpu"
    compute_type: str = "int8"
    threads: int = 1
    multilingual: bool = True
    languages: tuple[str, ...] = ("en", "de", "fr")
    memory_bytes: int = 0
    language: str = "en"
    texts: list[str] = field(default_factory=list)
    calls: list[tuple[float, Options]] = field(default_factory=list)
    """Seconds of audio and options of each recognition that started."""
    steps: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    """Raised instead of a text."""

    def __post_init__(self) -> None:
        self.gate.set()

    def recognise(self, samples: Samples, options: Options, access: ModelAccess) -> Recognition:
        """Encode and decode alternately, as the real one does."""
        self.calls.append((samples.size / SAMPLE_RATE, options))
        if self.error:
            raise self.error
        if options.vad and not self._is_loud(samples):
            return Recognition(options.language, 0.0, iter(()))
        self._enter(access, "encode")
        found = options.language or self.language
        words = self.texts.pop(0).split() if self.texts else None
        return Recognition(found, 1.0, self._segments(samples, options, access, words))

    def benchmark(self, samples: Samples, tokens: int) -> None:
        """Do nothing."""
        self.steps.append("benchmark")

    def _segments(
        self, samples: Samples, options: Options, access: ModelAccess, words: list[str] | None
    ) -> Iterator[Segment]:
        size = round(self.window_s * SAMPLE_RATE)
        for at in range(0, samples.size, size):
            if at:
                self._enter(access, "encode")
            self._enter(access, "decode")
            window = samples[at : at + size]
            if self._is_loud(window):
                yield self._segment(window, at / SAMPLE_RATE, options, words)

    def _segment(
        self, window: Samples, start_s: float, options: Options, words: list[str] | None
    ) -> Segment:
        length_s = window.size / SAMPLE_RATE
        count = max(1, int(length_s / self.word_s))
        first = round(start_s / self.word_s)
        words = words or [WORDS[(first + n) % len(WORDS)] for n in range(count)]
        each_s = length_s / len(words)
        timed = tuple(
            Word(start_s + n * each_s, start_s + (n + 1) * each_s, f" {word}", 0.9)
            for n, word in enumerate(words)
        )
        text = "".join(word.text for word in timed)
        return Segment(
            start_s, start_s + length_s, text, timed if options.word_timestamps else (), -0.1
        )

    def _enter(self, access: ModelAccess, what: str) -> None:
        with access():
            self.steps.append(what)
            self.gate.wait()

    def _is_loud(self, samples: Samples) -> bool:
        return bool(samples.size) and float(np.abs(samples).max()) >= self.level

"""An engine, a clock, voices and a phonemizer that do the same thing every time."""

import threading
import time
from dataclasses import dataclass, field

import numpy as np

from hearth_kokoro.engines import (
    MAX_PHONEMES,
    SAMPLE_RATE,
    InferenceStopped,
    Samples,
    StopSignal,
    Styles,
)
from hearth_kokoro.voices import Voice

STYLES: Styles = np.zeros((MAX_PHONEMES, 1, 256), np.float32)


class ScriptedClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds


class ScriptedVoices:
    """Has every voice; the styles are empty."""

    names: tuple[str, ...] = ("af_heart", "bm_fable", "ef_dora")

    def get(self, requested: str) -> Voice:
        return Voice(requested, {"b": "en-gb", "e": "es"}.get(requested[0], "en-us"), STYLES)


class ScriptedPhonemizer:
    """Repeats each letter so many times as phonemes; records the calls and their threads."""

    def __init__(self, per_letter: int = 1) -> None:
        self.per_letter = per_letter
        self.threads: set[str] = set()
        self.calls = 0

    def phonemes(self, text: str, language: str) -> str:
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        return "".join(c if c.isspace() else c * self.per_letter for c in text)


@dataclass(slots=True)
class ScriptedEngine:
    """A tone per phoneme, whose cost moves the clock, with Kokoro's silence before and after.

    With `tick_s` it really takes that long per phoneme and can be stopped meanwhile. While
    `gate` is closed, an inference waits.
    """

    clock: ScriptedClock = field(default_factory=ScriptedClock)
    fixed_s: float = 0.06
    per_phoneme_s: float = 0.028
    sound_s: float = 0.075
    silence_s: float = 0.0
    tick_s: float = 0.0
    level: float = 0.3
    name: str = "scripted"
    provider: str = "ScriptedProvider"
    model: str = "scripted.onnx"
    model_sha256: str = "0" * 64
    threads: int = 1
    requested: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        """Return the same samples for the same phonemes, at any position."""
        assert 0 < len(phonemes) <= MAX_PHONEMES
        self.requested.append(phonemes)
        until = time.monotonic() + self.tick_s * len(phonemes)
        while time.monotonic() < until or not self.gate.is_set():
            if stop.is_set():
                break
            time.sleep(0.001)
        if stop.is_set():
            self.stopped.append(phonemes)
            raise InferenceStopped
        self.clock.advance(self.fixed_s + self.per_phoneme_s * len(phonemes) / speed)
        silence = np.zeros(round(self.silence_s * SAMPLE_RATE), np.float32)
        tones = [self._tone(phoneme, speed) for phoneme in phonemes]
        return np.concatenate([silence, *tones, silence])

    def _tone(self, phoneme: str, speed: float) -> Samples:
        count = round(self.sound_s / speed * SAMPLE_RATE)
        hertz = 110 + ord(phoneme) % 128
        wave = np.sin(2 * np.pi * hertz * np.arange(count) / SAMPLE_RATE)
        return (self.level * wave).astype(np.float32)

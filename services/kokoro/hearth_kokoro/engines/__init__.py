"""The engines that convert phonemes to sound, behind one interface."""

import os
import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

# Since 1.29 onnxruntime's wheels report each session to Microsoft and write a device number into
# the home folder as soon as they are imported. So this is set before the import.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

SAMPLE_RATE = 24_000
"""Kokoro's samples per second."""
MAX_PHONEMES = 510
"""The most phonemes of one inference."""

Samples = npt.NDArray[np.float32]
"""Mono sound, shape [samples], at 24 kHz, within ±1."""
Styles = npt.NDArray[np.float32]
"""One voice, shape [510, 1, 256]: row n - 1 is its style for n phonemes."""


class InferenceStopped(Exception):
    """The inference was stopped because its sound is no longer needed."""


class StopSignal:
    """Stops one inference from another thread; the engine sets the function that does it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._act: Callable[[], None] | None = None

    def set(self) -> None:
        """Stop the inference, even before it starts; repeated calls do nothing."""
        with self._lock:
            self._set, act = True, self._act
        if act:
            act()

    def is_set(self) -> bool:
        """Return whether it was stopped."""
        return self._set

    def on_set(self, act: Callable[[], None]) -> None:
        """Set the function that stops the inference; it is called at once if already stopped."""
        with self._lock:
            self._act, now = act, self._set
        if now:
            act()


class Engine(Protocol):
    """A loaded model; `infer` blocks without the GIL, and one thread calls it."""

    name: str
    """onnx or torch."""
    provider: str
    """The device as the runtime reports it: CPUExecutionProvider, cuda (NVIDIA ...)."""
    model: str
    """The file's name."""
    model_sha256: str
    threads: int

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        """Return the sound of at most 510 phonemes; raises Stopped soon after `stop.set()`."""
        ...

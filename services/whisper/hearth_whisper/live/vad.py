"""Silero's voice activity detector; its weights are in faster-whisper's wheel."""

import asyncio
import functools
import importlib.util
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hearth_serving.errors import ServiceError
from hearth_whisper.live.endpointing import BLOCK, FRAME, VadFrame
from hearth_whisper.recognition import SAMPLE_RATE, Samples

_CONTEXT = 64
"""Samples before a frame that Silero takes with it."""
_STATE = (1, 1, 128)


class Vad(Protocol):
    """The voice activity detector of one stream."""

    def process(self, samples: Samples) -> list[VadFrame]:
        """Classify the next frames: `samples` is a multiple of FRAME long."""
        ...


class SileroModel:
    """The loaded network, one for all streams; each call runs in its caller's thread."""

    def __init__(self) -> None:
        """Load it; raises ServiceError where its file is missing."""
        # The package `recognition` has turned off onnxruntime's telemetry by now.
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(weights_path()), options, providers=["CPUExecutionProvider"]
        )
        self._spent_s = self._audio_s = 0.0

    def infer(self, audio: Samples, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """Return a probability per row of `audio`, shape [frames, 576], and the state after it."""
        started = time.perf_counter()
        inputs = {"input": audio, "h": state[0], "c": state[1]}
        probabilities, hidden, cell = self._session.run(["speech_probs", "hn", "cn"], inputs)
        self._spent_s += time.perf_counter() - started
        self._audio_s += len(audio) * FRAME / SAMPLE_RATE
        return probabilities, (hidden, cell)

    def describe(self) -> dict[str, float]:
        """Return the average cost of a second of audio."""
        return {
            "ms_per_s": round(1000 * self._spent_s / self._audio_s, 2) if self._audio_s else 0.0
        }


class VadStream:
    """The detector of one stream; it keeps the network's state between frames."""

    def __init__(self, model: SileroModel) -> None:
        self._model = model
        self._context = np.zeros(_CONTEXT, np.float32)
        self._state = (np.zeros(_STATE, np.float32), np.zeros(_STATE, np.float32))

    def process(self, samples: Samples) -> list[VadFrame]:
        """Classify the next frames: `samples` is a multiple of FRAME long."""
        frames = samples.reshape(-1, FRAME)
        rows = np.empty((len(frames), _CONTEXT + FRAME), np.float32)
        rows[:, _CONTEXT:] = frames
        rows[0, :_CONTEXT] = self._context
        rows[1:, :_CONTEXT] = frames[:-1, -_CONTEXT:]
        self._context = frames[-1, -_CONTEXT:].copy()
        probabilities, self._state = self._model.infer(rows, self._state)
        powers = np.square(samples).reshape(-1, BLOCK).sum(axis=1)
        levels = np.sqrt(powers / BLOCK).reshape(len(frames), -1).tolist()
        return [
            VadFrame(probability, tuple(frame_levels))
            for probability, frame_levels in zip(
                probabilities.ravel().tolist(), levels, strict=True
            )
        ]


@functools.cache
def shared_model() -> SileroModel:
    """Return this process's network, loaded by the first call; raises ServiceError."""
    return SileroModel()


async def open_vad() -> VadStream:
    """Return the detector for one stream; raises ServiceError where its file is missing."""
    # Importing onnxruntime would block the event loop for too long.
    loaded = bool(shared_model.cache_info().currsize)
    return VadStream(shared_model() if loaded else await asyncio.to_thread(shared_model))


def describe() -> dict[str, float]:
    """Return the cost of the detector until now; nothing where none is loaded."""
    return shared_model().describe() if shared_model.cache_info().currsize else {}


def weights_path() -> Path:
    """Return the network's file; raises ServiceError where faster-whisper contains none."""
    # Only located, not imported: faster-whisper's libraries are large.
    spec = importlib.util.find_spec("faster_whisper")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(Path(folders[0], "assets").glob("silero_vad_v*.onnx")) if folders else []
    if not found:
        message = "the wheel of faster-whisper has no assets/silero_vad_v*.onnx: reinstall it"
        raise ServiceError(message, status=500)
    return found[-1]

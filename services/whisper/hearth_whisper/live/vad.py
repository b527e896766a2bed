"""Silero's voice activity detector, frame by frame; its weights are in faster-whisper's wheel."""

import asyncio
import functools
import importlib.util
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hearth_serving.errors import ServiceError
from hearth_whisper.live.turns import BLOCK, FRAME, Frame
from hearth_whisper.recognising import SAMPLE_RATE, Samples

_CONTEXT = 64
"""Samples before a frame that Silero hears with it."""
_STATE = (1, 1, 128)


class Hears(Protocol):
    """What judges the frames of one stream, in order."""

    def hear(self, samples: Samples) -> list[Frame]:
        """Judge whole frames: `samples` is a multiple of FRAME long."""
        ...


class Silero:
    """The loaded detector, one for all streams; each call stays on the thread of its caller."""

    def __init__(self) -> None:
        """Load it; raises ServiceError where it is not there."""
        # The recognisers' package has said by now that onnxruntime must report nothing.
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(weights()), options, providers=["CPUExecutionProvider"]
        )
        self._took_s = self._heard_s = 0.0

    def judge(self, sound: Samples, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """Return a probability per row of `sound`, shape [frames, 576], and the state after it."""
        began = time.perf_counter()
        asked = {"input": sound, "h": state[0], "c": state[1]}
        probabilities, hidden, cell = self._session.run(["speech_probs", "hn", "cn"], asked)
        self._took_s += time.perf_counter() - began
        self._heard_s += len(sound) * FRAME / SAMPLE_RATE
        return probabilities, (hidden, cell)

    def describe(self) -> dict[str, float]:
        """Return what the detector took for a second of sound, on the average until now."""
        return {"ms_per_s": round(1000 * self._took_s / self._heard_s, 2) if self._heard_s else 0.0}


class VadStream:
    """One stream's detector; frames must come in order."""

    def __init__(self, silero: Silero) -> None:
        """Begin in silence."""
        self._silero = silero
        self._before = np.zeros(_CONTEXT, np.float32)
        self._state = (np.zeros(_STATE, np.float32), np.zeros(_STATE, np.float32))

    def hear(self, samples: Samples) -> list[Frame]:
        """Judge whole frames: `samples` is a multiple of FRAME long."""
        frames = samples.reshape(-1, FRAME)
        rows = np.empty((len(frames), _CONTEXT + FRAME), np.float32)
        rows[:, _CONTEXT:] = frames
        rows[0, :_CONTEXT] = self._before
        rows[1:, :_CONTEXT] = frames[:-1, -_CONTEXT:]
        self._before = frames[-1, -_CONTEXT:].copy()
        found, self._state = self._silero.judge(rows, self._state)
        powers = np.square(samples).reshape(-1, BLOCK).sum(axis=1)
        levels = np.sqrt(powers / BLOCK).reshape(len(frames), -1).tolist()
        return [
            Frame(probability, tuple(loud))
            for probability, loud in zip(found.ravel().tolist(), levels, strict=True)
        ]


@functools.cache
def shared() -> Silero:
    """Return the one detector of this process, loaded at the first call; raises ServiceError."""
    return Silero()


async def ear() -> VadStream:
    """Return what hears one stream; raises ServiceError where there is no detector."""
    # Importing its runtime takes longer than others should wait for their answers.
    return VadStream(shared() if shared.cache_info().currsize else await asyncio.to_thread(shared))


def figures() -> dict[str, float]:
    """Return what that detector took until now; nothing where none is loaded."""
    return shared().describe() if shared.cache_info().currsize else {}


def weights() -> Path:
    """Return the detector's file; raises ServiceError where faster-whisper brings none."""
    # Only found, not imported: the recogniser's libraries are large.
    spec = importlib.util.find_spec("faster_whisper")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(Path(folders[0], "assets").glob("silero_vad_v*.onnx")) if folders else []
    if not found:
        message = "the wheel of faster-whisper has no assets/silero_vad_v*.onnx: reinstall it"
        raise ServiceError(message, status=500)
    return found[-1]

"""Silero's voice activity detector, frame by frame; its weights are in faster-whisper's wheel."""

import importlib.util
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hearth_serving.errors import ServiceError
from hearth_whisper.live.turns import BLOCK, FRAME, Frame
from hearth_whisper.recognising import Samples

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

    def judge(self, sound: Samples, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """Return a probability per row of `sound`, shape [frames, 576], and the state after it."""
        asked = {"input": sound, "h": state[0], "c": state[1]}
        probabilities, hidden, cell = self._session.run(["speech_probs", "hn", "cn"], asked)
        return probabilities, (hidden, cell)


class Ear:
    """One stream's detector; frames must come in order."""

    def __init__(self, silero: Silero) -> None:
        """Begin in silence."""
        self._silero = silero
        self._before = np.zeros(_CONTEXT, np.float32)
        self._state = (np.zeros(_STATE, np.float32), np.zeros(_STATE, np.float32))

    def hear(self, samples: Samples) -> list[Frame]:
        """Judge whole frames: `samples` is a multiple of FRAME long."""
        count = samples.size // FRAME
        sound = np.concatenate([self._before, samples])
        self._before = sound[-_CONTEXT:]
        rows = np.lib.stride_tricks.sliding_window_view(sound, _CONTEXT + FRAME)[::FRAME]
        found, self._state = self._silero.judge(np.ascontiguousarray(rows), self._state)
        blocks = samples.reshape(count, -1, BLOCK)
        levels = np.sqrt(np.einsum("fbs,fbs->fb", blocks, blocks) / BLOCK).tolist()
        return [
            Frame(probability, tuple(loud))
            for probability, loud in zip(found.ravel().tolist(), levels, strict=True)
        ]


def weights() -> Path:
    """Return the detector's file; raises ServiceError where faster-whisper brings none."""
    # Only found, not imported: the recogniser's libraries are large.
    spec = importlib.util.find_spec("faster_whisper")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(Path(folders[0], "assets").glob("silero_vad_v*.onnx")) if folders else []
    if not found:
        message = "the wheel of faster-whisper has no assets/silero_vad_v*.onnx: install it anew"
        raise ServiceError(message, status=500)
    return found[-1]

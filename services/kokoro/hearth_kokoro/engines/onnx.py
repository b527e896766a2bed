"""Kokoro with onnxruntime on the processor."""

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from hearth_kokoro.engines import InferenceStopped, Samples, StopSignal, Styles
from hearth_kokoro.engines.model_io import (
    VOCABULARY,
    audio_samples,
    parse_vocabulary,
    style_for,
    token_ids,
)
from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_serving.measurements import sha256_of

# kokoro-onnx's exports contain the model's configuration under this key.
_CONFIG_KEY = "kokoro_config"
RUNTIME = f"onnxruntime {ort.__version__}"
"""The runtime and its version, part of the key of stored measurements."""
_DTYPES: Mapping[str, npt.DTypeLike] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
# mallopt(3): the size from which a block gets its own pages.
_M_MMAP_THRESHOLD, _OWN_PAGES_BYTES = -3, 2**20


class OnnxEngine:
    """A loaded model; both signatures of the published exports work."""

    name = "onnx"

    def __init__(self, model: Path, threads: int, *, sha256: str = "") -> None:
        """Load `model` for `threads` processor threads; `sha256` saves hashing the file."""
        _return_freed_memory()
        try:
            self._session = ort.InferenceSession(
                model, session_options(threads), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a type for each reason, with no common one
            line = first_line(error)
            raise ServiceError(f"{model} is not a valid ONNX model: {line}") from error
        self.provider = self._session.get_providers()[0]
        self.model = model.name
        self.model_sha256 = sha256 or sha256_of(model)
        self.threads = threads
        inputs = {i.name: i.type for i in self._session.get_inputs()}
        # Older exports name the tokens' input "tokens", newer ones "input_ids".
        self._tokens_input = "input_ids" if "input_ids" in inputs else "tokens"
        expected = {self._tokens_input, "style", "speed"}
        if set(inputs) != expected or not set(inputs.values()) <= set(_DTYPES):
            takes = ", ".join(f"{name}: {kind}" for name, kind in inputs.items())
            raise ServiceError(f"{model} is not a Kokoro model: its inputs are {takes or 'none'}")
        self._dtypes = {name: _DTYPES[kind] for name, kind in inputs.items()}
        self._output = self._session.get_outputs()[0].name
        self._vocabulary = _embedded_vocabulary(self._session, model) or VOCABULARY

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        """Return the sound of at most 510 phonemes; raises Stopped soon after `stop.set()`."""
        tokens = token_ids(phonemes, self._vocabulary)
        if stop.is_set():
            raise InferenceStopped
        if not tokens:
            return np.zeros(0, np.float32)
        options = ort.RunOptions()
        # Each length of text needs other block sizes, for which the arena would grow to 1.8 GB.
        # Shrinking it after each inference has no measurable cost.
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        stop.on_set(lambda: setattr(options, "terminate", True))
        try:
            found = self._session.run([self._output], self._inputs(tokens, voice, speed), options)
        except Exception as error:
            if stop.is_set():
                raise InferenceStopped from None
            line = first_line(error)
            raise EngineError(f"{self.model} failed: {line}", status=500) from error
        finally:
            stop.on_set(lambda: None)
        return audio_samples(found[0])

    def _inputs(
        self, tokens: list[int], voice: Styles, speed: float
    ) -> dict[str, npt.NDArray[np.generic]]:
        """Return the inputs of the graph; some exports accept only whole speeds."""
        kind = np.dtype(self._dtypes["speed"]).kind
        value = speed if kind == "f" else max(1, round(speed))
        style = style_for(voice, len(tokens))
        return {
            self._tokens_input: np.array([[0, *tokens, 0]], self._dtypes[self._tokens_input]),
            "style": style.astype(self._dtypes["style"], copy=False),
            "speed": np.array([value], self._dtypes["speed"]),
        }


def _return_freed_memory() -> None:
    """Keep large blocks off the heap, where later blocks would keep their memory in use.

    By default glibc raises its limit to the largest freed block, up to 32 MiB. Then the process
    grows by tens of MiB with each new length of text.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have no such limit
    if mallopt:
        mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES_BYTES)


def session_options(threads: int) -> ort.SessionOptions:
    """Return the options of every session of this package."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Spinning threads cost a fifth of the processor time, which the event loop needs as well.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _embedded_vocabulary(session: ort.InferenceSession, model: Path) -> dict[str, int]:
    """Return the vocabulary in the model file, empty if it has none."""
    config = session.get_modelmeta().custom_metadata_map.get(_CONFIG_KEY)
    try:
        return parse_vocabulary(json.loads(config)) if config else {}
    except ValueError as error:
        raise ServiceError(f"{model} has a broken {_CONFIG_KEY}: {first_line(error)}") from error

"""Kokoro with PyTorch, for an NVIDIA GPU; on a processor it is slower than onnxruntime."""

import importlib
import importlib.util
import json
import os
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hearth_kokoro.engines import InferenceStopped, Samples, StopSignal, Styles
from hearth_kokoro.engines.model_io import audio_samples, parse_vocabulary, style_for, token_ids
from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_serving.measurements import sha256_of


class TorchEngine:
    """The `kokoro` package's KModel, run eagerly, on the GPU if there is one."""

    name = "torch"

    def __init__(
        self, weights: Path, config: Path | None = None, device: str = "auto", *, sha256: str = ""
    ) -> None:
        """Load `kokoro-v1_0.pth` with its `config.json` (by default from the same folder).

        `device` is auto, cuda or cpu; cuda without a GPU is an error.
        """
        # The library reads these at import: no telemetry and no downloads.
        os.environ |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1"}
        torch = _imported("torch")
        where = _device(torch, device)
        found = _configuration(config or weights.with_name("config.json"))
        self._torch = torch
        self._model = _loaded(found, weights).to(where).eval()
        _remove_weight_norm(torch, self._model)
        self._device = where
        self._vocabulary = found["vocab"]
        self._stop: StopSignal | None = None
        for module in self._model.modules():
            module.register_forward_pre_hook(self._raise_if_stopped)
        self.provider = f"cuda ({torch.cuda.get_device_name()})" if where == "cuda" else "cpu"
        self.model = weights.name
        self.model_sha256 = sha256 or sha256_of(weights)
        self.threads: int = torch.get_num_threads()

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        """Return the sound of at most 510 phonemes; raises Stopped soon after `stop.set()`."""
        tokens = token_ids(phonemes, self._vocabulary)
        if stop.is_set():
            raise InferenceStopped
        if not tokens:
            return np.zeros(0, np.float32)
        torch = self._torch
        self._stop = stop
        try:
            ids = torch.tensor([[0, *tokens, 0]], device=self._device)
            style = torch.from_numpy(style_for(voice, len(tokens))).to(self._device)
            with torch.inference_mode():
                audio, _ = self._model.forward_with_tokens(ids, style, speed)
            return audio_samples(audio.cpu().numpy())
        except torch.cuda.OutOfMemoryError as error:
            raise EngineError("the GPU is out of memory", status=503, retry_after_s=5) from error
        except RuntimeError as error:
            line = first_line(error)
            raise EngineError(f"{self.model} failed: {line}", status=500) from error
        finally:
            self._stop = None

    def _raise_if_stopped(self, *_: object) -> None:
        """Stop the inference between two layers."""
        if self._stop is not None and self._stop.is_set():
            raise InferenceStopped


def has_cuda_gpu() -> bool:
    """Return whether PyTorch is installed and finds a GPU for CUDA."""
    if importlib.util.find_spec("torch") is None:
        return False
    return bool(_imported("torch").cuda.is_available())


def _imported(name: str) -> Any:
    """Import an optional library; the error explains how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(error.name or name) from error


def _missing(library: str) -> ServiceError:
    """Return the error for a missing library that only this engine needs."""
    return ServiceError(f"the torch engine needs {library}: pip install './services/kokoro[torch]'")


def _device(torch: Any, requested: str) -> str:
    """Return cuda or cpu."""
    has_cuda_gpu = bool(torch.cuda.is_available())
    if requested == "cuda" and not has_cuda_gpu:
        raise ServiceError("no GPU that CUDA can use: check `nvidia-smi`, or use --engine onnx")
    return "cuda" if has_cuda_gpu and requested != "cpu" else "cpu"


def _configuration(path: Path) -> dict[str, Any]:
    """Read the model's config.json."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {**found, "vocab": parse_vocabulary(found)}
    except (OSError, ValueError) as error:
        raise ServiceError(
            f"{path} is not a valid Kokoro configuration: {first_line(error)}"
        ) from error


def _loaded(config: dict[str, Any], weights: Path) -> Any:
    """Create the model with its weights, without network access."""
    try:
        # Both libraries warn at every start about the model's own code.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kmodel: Callable[..., Any] = _model_module().KModel
            return kmodel(repo_id="hexgrad/Kokoro-82M", config=config, model=str(weights))
    except ServiceError:
        raise
    except Exception as error:  # torch, zipfile and pickle raise different errors
        raise ServiceError(
            f"{weights} is not a Kokoro model for PyTorch: {first_line(error)}"
        ) from error


def _model_module() -> types.ModuleType:
    """Import `kokoro.model` without `kokoro` itself, which would import misaki and spaCy."""
    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        if spec is None or spec.submodule_search_locations is None:
            raise _missing("kokoro")
        package = types.ModuleType("kokoro")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["kokoro"] = package
    # The library logs each loaded tensor to the standard error.
    _imported("loguru").logger.disable("kokoro")
    module: types.ModuleType = _imported("kokoro.model")
    return module


def _remove_weight_norm(torch: Any, model: Any) -> None:
    """Apply the weight norms once; otherwise hooks apply them before every layer."""
    for module in model.modules():
        if hasattr(module, "weight_g"):
            torch.nn.utils.remove_weight_norm(module)

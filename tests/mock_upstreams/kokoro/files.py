"""Writes every file that the real releases have, under their names, once per recipe."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import time
import warnings
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16

from tests.mock_upstreams.kokoro import torch_weights, weights

# Raised when the bytes change for another reason than the files and versions below.
RECIPE = 1
_KEPT_S = 24 * 3600
FP32 = "kokoro-v1.0.onnx"
FP16 = "kokoro-v1.0.fp16.onnx"
INT8 = "kokoro-v1.0.int8.onnx"
VOICES = "voices-v1.0.bin"
TORCH = "kokoro-v1_0.pth"
CONFIG = "config.json"


def prepare(cache: Path) -> Path:
    """Return the folder with all six files, written unless the cache holds it."""
    target = cache / "kokoro" / _recipe_digest()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the cache's own file system, so that the folder appears whole or not at all.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        folder = Path(scratch) / "files"
        folder.mkdir()
        (folder / FP32).write_bytes(weights.model())
        _halve(folder / FP32, folder / FP16)
        _quantise(folder / FP32, folder / INT8)
        with (folder / VOICES).open("wb") as content:
            np.savez(content, allow_pickle=False, **weights.voices())
        torch_weights.write(folder / TORCH)
        (folder / CONFIG).write_bytes(files("kokoro_onnx").joinpath("config.json").read_bytes())
        folder.chmod(0o755)
        folder.rename(target)
    _forget(target)
    return target


def _forget(kept: Path) -> None:
    """Remove what older recipes made, 0.9 GB each; not today's, which another lab may serve."""
    for old in kept.parent.iterdir():
        if old != kept and time.time() - old.stat().st_mtime > _KEPT_S:
            shutil.rmtree(old)


def _recipe_digest() -> str:
    """Return the digest that names this recipe: same code and converters, same folder."""
    digest = hashlib.sha256(f"{RECIPE} {onnx.__version__} {onnxruntime.__version__}".encode())
    for path in (weights.SKELETON, torch_weights.PARAMETERS, *_code()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _code() -> list[Path]:
    """Return the modules of this folder that decide about bytes."""
    return [Path(module.__file__ or "") for module in (weights, torch_weights)] + [Path(__file__)]


def _halve(model: Path, target: Path) -> None:
    """Write the model in half precision; its inputs and output stay as they are."""
    with warnings.catch_warnings():
        # It tells of each weight that is too small for half precision.
        warnings.simplefilter("ignore")
        halved = convert_float_to_float16(onnx.load(model), keep_io_types=True)
    target.write_bytes(halved.SerializeToString(deterministic=True))


def _quantise(model: Path, target: Path) -> None:
    """Write the model with 8-bit weights, by dynamic quantisation as in the real release."""
    logger = logging.getLogger()
    before = logger.level
    # It advises a preparation that this graph does not get through.
    logger.setLevel(logging.ERROR)
    try:
        quantize_dynamic(model, target, weight_type=QuantType.QUInt8)
    finally:
        logger.setLevel(before)

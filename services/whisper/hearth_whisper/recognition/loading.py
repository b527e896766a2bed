"""Check a model's folder and load it; each problem is one line."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ctranslate2
import faster_whisper

from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_whisper.recognition.resources import separate_mappings

log = logging.getLogger(__name__)

# faster-whisper logs each request; audio and text are private.
logging.getLogger("faster_whisper").setLevel(logging.ERROR)

_REQUIRED = ("model.bin", "config.json", "tokenizer.json")
_VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
COMPUTE_TYPES: Mapping[str, str] = MappingProxyType({"cpu": "int8", "cuda": "float16"})
"""The quantisation on each device."""


def load_model(
    folder: Path, device: str, threads: int, workers: int = 1
) -> faster_whisper.WhisperModel:
    """Return the model of a folder, without network access; raises ServiceError."""
    check_folder(folder)
    try:
        with separate_mappings():
            loaded = faster_whisper.WhisperModel(
                str(folder),
                device=device,
                compute_type=COMPUTE_TYPES[device],
                cpu_threads=threads,
                num_workers=workers,
                local_files_only=True,
            )
    # No document lists the exceptions that a truncated or foreign file causes in the libraries.
    except Exception as error:
        raise EngineError(_load_error(folder, device, error), status=503) from error
    _check_tokenizer(folder, loaded)
    return loaded


def check_folder(folder: Path) -> None:
    """Raise ServiceError unless all files of a model are there."""
    if not folder.is_dir():
        raise ServiceError(
            f"there is no model at {folder}: give a folder that contains model.bin", status=503
        )
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        missing.append(_VOCABULARIES[0])
    if missing:
        names = ", ".join(missing)
        raise ServiceError(f"the model in {folder} is incomplete: {names} is missing", status=503)
    try:
        config: Any = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "lang_ids" not in config:
        raise ServiceError(
            f"{folder / 'config.json'} does not describe a Whisper model in CTranslate2's format",
            status=503,
        )


def resolve_device(device: str) -> str:
    """Return cpu or cuda: `auto` is cuda where CUDA can use a GPU. Raises ServiceError."""
    if device == "cpu":
        return "cpu"
    try:
        gpus = ctranslate2.get_cuda_device_count()
    except RuntimeError as error:
        log.warning("the GPU is not used: %s", first_line(error))
        gpus = 0
    if not gpus and device == "cuda":
        raise ServiceError("--device cuda: there is no GPU that CUDA can use", status=503)
    return "cuda" if gpus else "cpu"


def _check_tokenizer(folder: Path, loaded: faster_whisper.WhisperModel) -> None:
    """Raise ServiceError for another model's tokenizer, which would produce garbage."""
    number = loaded.hf_tokenizer.token_to_id
    required = ["<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"]
    mismatch = any(number(token) is None for token in required)
    if loaded.model.is_multilingual:
        languages = json.loads((folder / "config.json").read_bytes())["lang_ids"]
        mismatch = mismatch or number("<|en|>") not in languages
    if mismatch:
        raise ServiceError(f"{folder / 'tokenizer.json'} belongs to another model", status=503)


def _load_error(folder: Path, device: str, error: Exception) -> str:
    advice = "fetch its files again" if device == "cpu" else "try --device cpu"
    return f"the model in {folder} cannot be loaded: {first_line(error)}; {advice}"

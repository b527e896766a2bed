"""A model's folder, checked and loaded; what is wrong with it, in one line."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ctranslate2
import faster_whisper

from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_whisper.recognising.memory import weights_apart

log = logging.getLogger(__name__)

# faster-whisper tells of each request on its own; sound and text are nobody's business.
logging.getLogger("faster_whisper").setLevel(logging.ERROR)

_NEEDED = ("model.bin", "config.json", "tokenizer.json")
_VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
COMPUTE: Mapping[str, str] = MappingProxyType({"cpu": "int8", "cuda": "float16"})
"""The numbers that each device computes with."""


def load(folder: Path, device: str, threads: int, workers: int = 1) -> faster_whisper.WhisperModel:
    """Return the model of a folder, with no look at the network; raises ServiceError."""
    check(folder)
    try:
        with weights_apart():
            loaded = faster_whisper.WhisperModel(
                str(folder),
                device=device,
                compute_type=COMPUTE[device],
                cpu_threads=threads,
                num_workers=workers,
                local_files_only=True,
            )
    # What a torn or foreign file makes the libraries raise is not said anywhere.
    except Exception as error:
        raise EngineError(_unloadable(folder, device, error), status=503) from error
    _check_words(folder, loaded)
    return loaded


def check(folder: Path) -> None:
    """Raise ServiceError unless all files of a model are there."""
    if not folder.is_dir():
        raise ServiceError(
            f"there is no model at {folder}: give a folder that contains model.bin", status=503
        )
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        missing.append(_VOCABULARIES[0])
    if missing:
        what = ", ".join(missing)
        raise ServiceError(f"the model in {folder} is incomplete: {what} is missing", status=503)
    try:
        config: Any = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or "lang_ids" not in config:
        raise ServiceError(
            f"{folder / 'config.json'} does not describe a Whisper model in CTranslate2's format",
            status=503,
        )


def device_of(asked: str) -> str:
    """Return cpu or cuda: `auto` takes a card where there is one that CUDA can use."""
    if asked == "cpu":
        return "cpu"
    try:
        cards = ctranslate2.get_cuda_device_count()
    except RuntimeError as error:
        log.warning("the GPU is not used: %s", first_line(error))
        cards = 0
    if not cards and asked == "cuda":
        raise ServiceError("--device cuda: there is no GPU that CUDA can use", status=503)
    return "cuda" if cards else "cpu"


def _check_words(folder: Path, loaded: faster_whisper.WhisperModel) -> None:
    """Raise ServiceError where the tokenizer is another model's: its text would be rubbish."""
    number = loaded.hf_tokenizer.token_to_id
    needed = ["<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"]
    alien = any(number(token) is None for token in needed)
    if loaded.model.is_multilingual:
        languages = json.loads((folder / "config.json").read_bytes())["lang_ids"]
        alien = alien or number("<|en|>") not in languages
    if alien:
        raise ServiceError(f"{folder / 'tokenizer.json'} belongs to another model", status=503)


def _unloadable(folder: Path, device: str, error: Exception) -> str:
    advice = "fetch its files again" if device == "cpu" else "try --device cpu"
    return f"the model in {folder} cannot be loaded: {first_line(error)}; {advice}"

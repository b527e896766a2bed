"""The phonemes that Kokoro knows, and their numbers."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from hearth_kokoro.engines import MAX_PHONEMES
from hearth_kokoro.errors import SpeechError


def _published() -> dict[str, int]:
    """Return the vocabulary of kokoro-onnx's config.json, without importing that package.

    Its import takes 0.6 s and brings what we do not use.
    """
    spec = find_spec("kokoro_onnx")
    if spec is None or spec.origin is None:
        raise SpeechError("kokoro-onnx is missing: pip install hearth-kokoro")
    text = Path(spec.origin).with_name("config.json").read_text(encoding="utf-8")
    vocabulary: dict[str, int] = json.loads(text)["vocab"]
    return vocabulary


VOCABULARY: Mapping[str, int] = _published()
"""Phoneme -> number, as published with the model; a model may bring another one."""


def tokens_of(phonemes: str, vocabulary: Mapping[str, int] = VOCABULARY) -> list[int]:
    """Return the numbers of the phonemes that the model knows; more than 510 are an error."""
    tokens = [number for number in map(vocabulary.get, phonemes) if number is not None]
    if len(tokens) > MAX_PHONEMES:
        raise SpeechError(f"{len(tokens)} phonemes at once, the model takes {MAX_PHONEMES}")
    return tokens

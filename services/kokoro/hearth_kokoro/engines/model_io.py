"""The inputs and outputs of the model, the same for both engines."""

import json
from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from hearth_kokoro.engines import MAX_PHONEMES, Samples, Styles
from hearth_serving.errors import EngineError


def parse_vocabulary(config: object) -> dict[str, int]:
    """Return the vocabulary of Kokoro's config.json, empty if it has none; or ValueError."""
    found = config.get("vocab", {}) if isinstance(config, dict) else None
    if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
        raise ValueError("vocab must map phonemes to numbers")
    return found


def _published() -> dict[str, int]:
    """Return the vocabulary of Kokoro-82M's config.json (Apache-2.0), which is packaged."""
    place = files("hearth_kokoro.engines").joinpath("vocabulary.json")
    return parse_vocabulary({"vocab": json.loads(place.read_text(encoding="utf-8"))})


VOCABULARY: Mapping[str, int] = _published()
"""Phoneme -> token id, as published with the model; a model file may contain another one."""


def token_ids(phonemes: str, vocabulary: Mapping[str, int] = VOCABULARY) -> list[int]:
    """Return the ids of the phonemes that the model knows; more than 510 are an error."""
    tokens = [number for number in map(vocabulary.get, phonemes) if number is not None]
    if len(tokens) > MAX_PHONEMES:
        raise EngineError(
            f"{len(tokens)} phonemes in one inference; the model takes at most {MAX_PHONEMES}"
        )
    return tokens


def style_for(voice: Styles, phonemes: int) -> npt.NDArray[np.float32]:
    """Return the voice's style for this many phonemes, at least one; shape [1, 256]."""
    row: npt.NDArray[np.float32] = voice[min(phonemes, len(voice)) - 1]
    return row


def audio_samples(raw: npt.NDArray[np.generic]) -> Samples:
    """Return samples as float32 within ±1; a half-precision model may overflow."""
    samples = np.nan_to_num(np.asarray(raw, np.float32).ravel(), nan=0.0)
    return np.clip(samples, -1.0, 1.0, out=samples)

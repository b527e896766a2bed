"""The phonemes that Kokoro knows, and their numbers."""

import json
from collections.abc import Mapping
from importlib.resources import files

from hearth_kokoro.engines import MAX_PHONEMES
from hearth_serving.errors import EngineError


def vocabulary_of(config: object) -> dict[str, int]:
    """Return the vocabulary of a config.json of Kokoro's, empty if it has none; or ValueError."""
    found = config.get("vocab", {}) if isinstance(config, dict) else None
    if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
        raise ValueError("vocab must map phonemes to numbers")
    return found


def _published() -> dict[str, int]:
    """Return the vocabulary of Kokoro-82M's own config.json (Apache-2.0), kept beside this."""
    place = files("hearth_kokoro.engines").joinpath("vocabulary.json")
    return vocabulary_of({"vocab": json.loads(place.read_text(encoding="utf-8"))})


VOCABULARY: Mapping[str, int] = _published()
"""Phoneme -> number, as published with the model; a model may bring another one."""


def tokens_of(phonemes: str, vocabulary: Mapping[str, int] = VOCABULARY) -> list[int]:
    """Return the numbers of the phonemes that the model knows; more than 510 are an error."""
    tokens = [number for number in map(vocabulary.get, phonemes) if number is not None]
    if len(tokens) > MAX_PHONEMES:
        raise EngineError(
            f"{len(tokens)} phonemes in one inference; the model takes at most {MAX_PHONEMES}"
        )
    return tokens

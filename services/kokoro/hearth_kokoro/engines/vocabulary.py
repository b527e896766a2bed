"""The phonemes that Kokoro knows, and their numbers."""

import json
from collections.abc import Mapping
from importlib.resources import files

from hearth_kokoro.engines import MAX_PHONEMES
from hearth_kokoro.errors import SpeechError


def _published() -> dict[str, int]:
    """Return the vocabulary of Kokoro-82M's own config.json (Apache-2.0), kept beside this."""
    text = files("hearth_kokoro.engines").joinpath("vocabulary.json").read_text(encoding="utf-8")
    vocabulary: dict[str, int] = json.loads(text)
    return vocabulary


VOCABULARY: Mapping[str, int] = _published()
"""Phoneme -> number, as published with the model; a model may bring another one."""


def tokens_of(phonemes: str, vocabulary: Mapping[str, int] = VOCABULARY) -> list[int]:
    """Return the numbers of the phonemes that the model knows; more than 510 are an error."""
    tokens = [number for number in map(vocabulary.get, phonemes) if number is not None]
    if len(tokens) > MAX_PHONEMES:
        raise SpeechError(f"{len(tokens)} phonemes at once, the model takes {MAX_PHONEMES}")
    return tokens

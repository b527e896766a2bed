"""The vocabulary in the package: phonemes and their numbers."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from hearth_kokoro.engines.model_io import VOCABULARY, token_ids
from hearth_serving.errors import ServiceError


def test_the_vocabulary_is_the_published_one() -> None:
    spec = find_spec("kokoro_onnx")
    if spec is None or spec.origin is None:
        pytest.skip("not run: kokoro-onnx, which has the published vocabulary, is not installed")
    published = json.loads(Path(spec.origin).with_name("config.json").read_text(encoding="utf-8"))
    assert published["vocab"] == VOCABULARY


def test_every_phoneme_is_one_character_with_a_unique_number() -> None:
    assert len(VOCABULARY) == len(set(VOCABULARY.values())) == 114
    assert {len(phoneme) for phoneme in VOCABULARY} == {1}
    # The model has 178 of them; 0 is the pad on either side.
    assert 0 < min(VOCABULARY.values()) <= max(VOCABULARY.values()) < 178


def test_unknown_phonemes_are_left_out() -> None:
    assert token_ids("a#b\n") == [VOCABULARY["a"], VOCABULARY["b"]]
    with pytest.raises(ServiceError, match="511 phonemes in one inference"):
        token_ids("a" * 511)

"""What is spoken: of the right length, and never begun alike."""

from __future__ import annotations

import pytest

from hearth.clients.texts import LONG_CHARACTERS, Texts


@pytest.mark.parametrize("voice", ["af_heart", "bm_fable", "ef_dora"])
def test_a_phrase_is_two_sentences_of_about_ninety_characters(voice: str) -> None:
    texts = Texts("seed")
    for _ in range(50):
        phrase = texts.phrase(voice)
        assert 80 <= len(phrase) <= 100
        assert phrase.count(".") == 2


def test_no_two_texts_of_a_run_begin_alike() -> None:
    texts = Texts("seed")
    beginnings = [" ".join(texts.phrase().split()[:3]) for _ in range(1000)]
    assert len(set(beginnings)) == 1000
    assert Texts().phrase() != Texts().phrase()


@pytest.mark.parametrize("characters", [200, 900, LONG_CHARACTERS])
def test_a_long_text_is_as_long_as_it_says(characters: int) -> None:
    text = Texts("seed").long(characters)
    assert characters - 20 < len(text) <= characters
    assert text.endswith(".")
    sentences = text.replace("\n\n", " ").split(". ")
    assert len(set(sentences)) == len(sentences)
    assert 450 <= len(Texts("seed").paragraph()) <= 500

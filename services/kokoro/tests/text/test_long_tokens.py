"""Text without a break is split before it reaches the model."""

import pytest

from hearth_kokoro.text.tokenizer import tokenize
from hearth_kokoro.text.tokens import Pause, Token, split_long


@pytest.mark.parametrize(
    "text",
    [
        "1234567890" * 200,
        "a" * 2000,
        "ab1" * 600,
        "1,234," * 300,
        "€" * 300,
        "1/2" * 300,
        "1." * 500,
    ],
)
def test_text_without_a_break_has_short_tokens_and_keeps_its_words(text: str) -> None:
    whole = tokenize(text, "en-us")
    parts = [part for token in whole for part in split_long(token)]
    assert max(len(part.spoken) for part in parts) <= 100 < max(len(one.spoken) for one in whole)
    assert "".join(part.source for part in parts) == text
    spoken = (
        "".join(token.spoken for token in tokens).replace(" ", "") for tokens in (whole, parts)
    )
    assert len(set(spoken)) == 1
    assert len(parts) < len(text)


def test_each_digit_stays_with_its_word() -> None:
    (token,) = tokenize("7" * 60 + " ", "en-us")
    parts = split_long(token)
    assert all(len(part.source.strip()) == len(part.spoken.split()) for part in parts)


def test_the_last_part_has_the_pause_and_the_mark() -> None:
    parts = split_long(Token("9" * 40 + ". ", "nine " * 39 + "nine.", Pause.SENTENCE))
    assert {part.pause for part in parts[:-1]} == {Pause.WORD}
    assert parts[-1].pause == Pause.SENTENCE
    assert parts[-1].spoken.endswith("nine.")
    assert parts[-1].source.endswith(". ")


def test_a_date_is_never_cut() -> None:
    (token,) = tokenize("2026-11-23T10:31:22", "en-us")
    assert split_long(token) == [token]

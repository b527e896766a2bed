"""Where a text is cut: short at first, at the best pause the clock allows, never in a token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_kokoro.synthesis.cost_model import SynthesisRate
from hearth_kokoro.synthesis.segmentation import (
    LONGEST,
    Boundary,
    boundaries,
    first_boundary,
    middle_boundary,
    next_boundary,
    spoken_text,
)
from hearth_kokoro.text.tokenizer import tokenize
from hearth_kokoro.text.tokens import Pause, Token

# Two cores, fp32: as measured. And a card.
PROCESSOR, CARD = SynthesisRate(0.06, 0.028, 0.075), SynthesisRate(0.03, 0.0001, 0.075)
PHRASE = "The quick brown fox jumps over the lazy dog. It then went home to sleep until morning."


def text_until(text: str, cut: Boundary) -> str:
    return "".join(token.source for token in tokenize(text, "en-us")[: cut.end])


def first(text: str, rate: SynthesisRate) -> str:
    return text_until(text, first_boundary(boundaries(tokenize(text, "en-us")), rate))


def test_the_first_segment_is_a_few_words_of_a_long_clause() -> None:
    assert first(PHRASE, PROCESSOR) == "The quick "
    assert PROCESSOR.cost_s(len(first(PHRASE, PROCESSOR))) < 0.2 * PROCESSOR.cost_s(90)


def test_the_first_segment_is_a_clause_if_that_is_fast_enough() -> None:
    assert first("Good day, my friend. How are you?", PROCESSOR) == "Good day, "
    assert first(PHRASE, CARD) == "The quick brown fox jumps over the lazy dog. "


def test_a_slow_machine_starts_with_a_longer_segment() -> None:
    slow = SynthesisRate(0.06, 0.055, 0.075)
    assert len(first(PHRASE, slow)) > len(first(PHRASE, PROCESSOR))


def test_a_long_word_that_would_be_late_belongs_to_the_first_segment() -> None:
    text = "Go on unimaginatively, she said, and he went."
    assert first(text, SynthesisRate(0.06, 0.05, 0.075)) == "Go on unimaginatively, "


@pytest.mark.parametrize(
    ("buffered_s", "expected"),
    [
        (0.0, "One, "),
        (1.0, "One, two three four "),
        (1.8, "One, two three four five six seven. "),
        (60.0, "One, two three four five six seven. Eight nine, ten eleven.\n\nTwelve it is."),
    ],
)
def test_more_buffered_sound_makes_a_longer_segment(buffered_s: float, expected: str) -> None:
    text = "One, two three four five six seven. Eight nine, ten eleven.\n\nTwelve it is."
    assert (
        text_until(text, next_boundary(boundaries(tokenize(text, "en-us")), PROCESSOR, buffered_s))
        == expected
    )


def test_a_sentence_is_preferred_to_a_longer_segment_and_a_paragraph_to_a_sentence() -> None:
    sentence = "This is a sentence of some forty letters. "
    places = boundaries(tokenize(sentence * 8, "en-us"))
    cut = next_boundary(places, PROCESSOR, 60.0)
    assert text_until(sentence * 8, cut) == sentence * 5
    split = sentence * 3 + "This is a heading, of two parts.\n\n" + sentence * 5
    assert text_until(
        split, next_boundary(boundaries(tokenize(split, "en-us")), PROCESSOR, 60.0)
    ).endswith("\n\n")


def test_silent_tokens_stay_with_their_neighbours() -> None:
    tokens = [
        Token("** ", "", Pause.WORD),
        Token("one ", "one", Pause.WORD),
        Token("--- ", "", Pause.PARAGRAPH),
        Token("#", "", Pause.NONE),
        Token("two", "two", Pause.WORD),
        Token(" ~", "", Pause.WORD),
    ]
    assert boundaries(tokens) == [Boundary(3, 4, Pause.PARAGRAPH), Boundary(6, 8, Pause.WORD)]
    assert spoken_text(tokens) == "one two"
    assert boundaries(tokens[:1]) == [Boundary(1, 0, Pause.WORD)]


def test_a_segment_that_is_too_long_is_halved_at_a_pause() -> None:
    text = "One two three four five, six seven eight nine ten eleven twelve."
    found = middle_boundary(boundaries(tokenize(text, "en-us")))
    assert found
    assert text_until(text, found) == "One two three four five, "
    assert middle_boundary(boundaries(tokenize("One", "en-us"))) is None


TOKENS = st.lists(
    st.builds(
        Token,
        source=st.text("ab .", min_size=1, max_size=8),
        spoken=st.one_of(st.just(""), st.text("abc,.", min_size=1, max_size=14)),
        pause=st.sampled_from(Pause),
    ),
    min_size=1,
    max_size=80,
)
RATES = st.builds(
    SynthesisRate, st.floats(0.001, 0.5), st.floats(0.0001, 0.2), st.floats(0.03, 0.1)
)


@settings(deadline=None)
@given(TOKENS, RATES, st.floats(0, 100))
def test_every_cut_is_at_an_allowed_position(
    tokens: list[Token], rate: SynthesisRate, buffered_s: float
) -> None:
    places = boundaries(tokens)
    assert places[-1].end == len(tokens)
    assert [cut.end for cut in places] == sorted({cut.end for cut in places})
    for cut in places[:-1]:
        assert tokens[cut.end - 1].pause >= Pause.WORD
        assert spoken_text(tokens[: cut.end])
    for cut in (first_boundary(places, rate), next_boundary(places, rate, buffered_s)):
        assert cut in places
        assert cut.size <= LONGEST or cut in places[:2]


@settings(deadline=None)
@given(TOKENS, RATES)
def test_the_first_segment_has_two_words_or_a_clause(
    tokens: list[Token], rate: SynthesisRate
) -> None:
    places = boundaries(tokens)
    cut = first_boundary(places, rate)
    assert cut != places[0] or len(places) == 1 or cut.pause >= Pause.CLAUSE


def test_a_machine_that_is_too_slow_pauses_at_clauses_and_not_after_every_word() -> None:
    text = "When all is said and done, there is no hurry about it, is there?"
    places, rate = boundaries(tokenize(text, "en-us")), PROCESSOR.shared(4)
    cut = next_boundary(places, rate, 0.3, may_stall=True)
    assert text_until(text, cut) == "When all is said and done, there is no hurry about it, "
    # Where the sound was held back, shorter segments shorten the wait.
    assert text_until(text, next_boundary(places, rate, 0.3)) == "When all is said and done, "

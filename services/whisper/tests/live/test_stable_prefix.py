"""The stable prefix of partial results never changes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_whisper.live.utterance import StablePrefix


def test_the_agreement_of_two_texts_is_stable() -> None:
    prefix = StablePrefix()
    assert prefix.update("turn of") == ("turn of", "")
    assert prefix.update("turn off the") == ("turn off the", "turn")
    assert prefix.update("turn off the lights") == ("turn off the lights", "turn off the")


def test_the_stable_prefix_stays_when_the_text_changes() -> None:
    prefix = StablePrefix()
    for partial in ("one two three", "one two three", "won too three four", "won too three four"):
        text, kept = prefix.update(partial)
    assert (text, kept) == ("one two three four", "one two three four")


def test_case_and_punctuation_are_ignored() -> None:
    prefix = StablePrefix()
    prefix.update("Well, then")
    assert prefix.update("well then. Go") == ("well then. Go", "well then.")


def test_a_shorter_text_keeps_the_stable_prefix() -> None:
    prefix = StablePrefix()
    prefix.update("one two")
    prefix.update("one two")
    assert prefix.update("") == ("one two", "one two")


def test_scripts_without_spaces_are_compared_by_character() -> None:
    prefix = StablePrefix()
    prefix.update("今日は天")
    assert prefix.update("今日は雨です") == ("今日は雨です", "今日は")


# Slow runs on a busy machine are not failures.
@settings(deadline=None)
@given(st.lists(st.text(alphabet="ab, .今天", max_size=12), max_size=8))
def test_the_prefix_starts_each_text_and_only_grows(texts: list[str]) -> None:
    prefix, before = StablePrefix(), ""
    for partial in texts:
        text, kept = prefix.update(partial)
        assert text.startswith(kept)
        assert kept.startswith(before)
        before = kept

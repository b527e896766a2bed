"""What is shown as said is never taken back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_whisper.live.stable import Stable


def test_what_two_guesses_agree_on_is_stable() -> None:
    stable = Stable()
    assert stable.hear("turn of") == ("turn of", "")
    assert stable.hear("turn off the") == ("turn off the", "turn")
    assert stable.hear("turn off the lights") == ("turn off the lights", "turn off the")


def test_what_was_stable_stays_whatever_is_guessed_next() -> None:
    stable = Stable()
    for guess in ("one two three", "one two three", "won too three four", "won too three four"):
        text, kept = stable.hear(guess)
    assert (text, kept) == ("one two three four", "one two three four")


def test_case_and_punctuation_are_no_disagreement() -> None:
    stable = Stable()
    stable.hear("Well, then")
    assert stable.hear("well then. Go") == ("well then. Go", "well then.")


def test_a_shorter_guess_takes_nothing_back() -> None:
    stable = Stable()
    stable.hear("one two")
    stable.hear("one two")
    assert stable.hear("") == ("one two", "one two")


def test_a_script_without_spaces_agrees_character_by_character() -> None:
    stable = Stable()
    stable.hear("今日は天")
    assert stable.hear("今日は雨です") == ("今日は雨です", "今日は")


# A busy machine is no failure.
@settings(deadline=None)
@given(st.lists(st.text(alphabet="ab, .今天", max_size=12), max_size=8))
def test_stable_begins_each_text_and_only_grows(guesses: list[str]) -> None:
    stable, before = Stable(), ""
    for guess in guesses:
        text, kept = stable.hear(guess)
        assert text.startswith(kept)
        assert kept.startswith(before)
        before = kept

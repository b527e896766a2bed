"""A text that is being written is given to be spoken clause by clause, and nothing of it lost."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.text.token import Pause


def source(feed: Feed) -> str:
    return "".join(token.source for token in feed.ready())


def test_an_open_text_is_spoken_up_to_the_last_clause() -> None:
    feed = Feed("en-us")
    assert feed.ready() == []
    feed.write("Hello there")
    assert feed.ready() == []
    feed.write(", my friend. I am")
    assert source(feed) == "Hello there, my friend. "
    feed.take(len(feed.ready()))
    assert feed.ready() == []
    feed.close()
    assert source(feed) == "I am"
    feed.take(len(feed.ready()))
    assert feed.is_over


def test_words_without_punctuation_are_spoken_after_64() -> None:
    feed = Feed("en-us")
    for number in range(60):
        feed.write(f"word{'abcdefghij'[number % 10]} ")
    assert feed.ready() == []
    for _ in range(10):
        feed.write("more ")
    assert len(feed.ready()) >= 64


def test_nothing_is_written_after_the_end() -> None:
    feed = Feed("en-us")
    feed.write("One two")
    feed.close(goes_on=True)
    feed.write(" three, four, five")
    feed.close()
    assert source(feed) == "One two"
    assert feed.goes_on
    assert not feed.is_over
    feed.take(len(feed.ready()))
    assert feed.is_over


def test_an_empty_text_is_over() -> None:
    feed = Feed("en-us")
    feed.close()
    assert feed.ready() == []
    assert feed.is_over


def test_a_long_text_is_not_read_at_once() -> None:
    feed = Feed.of("A sentence of words. " * 5000, "en-us")
    assert 0 < len(feed.ready(is_first=True)) <= 60
    assert 0 < len(feed.ready()) <= 300
    assert feed.unspoken == 21 * 5000


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 20_000, "\n" * 50_000, "*** " * 20_000])
def test_an_endless_text_always_has_something_ready(text: str) -> None:
    feed, taken = Feed("en-us"), 0
    feed.write(text)
    feed.close()
    while not feed.is_over:
        ready = feed.ready()
        assert ready or feed.is_over
        taken += sum(len(token.source) for token in feed.take(len(ready)))
    assert taken == len(text)


def test_after_cancel_nothing_is_left() -> None:
    feed, stopped = Feed("en-us"), list[bool]()
    feed.on_cancel(lambda: stopped.append(True))
    feed.write("One, two, three. ")
    feed.cancel()
    feed.write("four")
    assert stopped == [True]
    assert feed.ready() == []
    assert feed.is_over
    assert feed.unspoken == 0


async def test_the_speaker_is_woken_by_text_and_by_its_end() -> None:
    feed = Feed("en-us")
    acts: list[Callable[[], None]] = [lambda: feed.write("One"), feed.close]
    for act in acts:
        woken = asyncio.create_task(feed.changed())
        await asyncio.sleep(0)
        assert not woken.done()
        act()
        await asyncio.wait_for(woken, 1)
        feed.ready()


STEPS = st.lists(
    st.one_of(
        st.text("ab1.,! \n\"'*#-", max_size=30).map(lambda text: ("write", text)),
        st.integers(1, 5).map(lambda count: ("take", "x" * count)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_no_character_is_lost(steps: list[tuple[str, str]]) -> None:
    feed, written, taken = Feed("en-us"), "", ""

    def take(count: int) -> None:
        nonlocal taken
        ready = feed.ready()
        taken += "".join(token.source for token in feed.take(min(count, len(ready))))

    for step, value in steps:
        if step == "write":
            feed.write(value)
            written += value
        else:
            take(len(value))
        assert feed.unspoken == len(written) - len(taken)
    feed.close()
    while not feed.is_over:
        take(400)
    assert taken == written


@settings(deadline=None)
@given(st.lists(st.text("ab, .", min_size=1, max_size=12), max_size=20))
def test_an_open_text_is_cut_after_clauses_only(deltas: list[str]) -> None:
    feed = Feed("en-us")
    for delta in deltas:
        feed.write(delta)
        ready = feed.ready()
        assert not ready or ready[-1].pause >= Pause.CLAUSE


# What is glued to the word after it, in every language that is read: never cut from it.
GLUED = {
    "en-us": ["J. K. Rowling", "Dr. Smith", "e.g. this", "Mrs. Jones", "No. 5", "5 km", "$3.50"],
    "en-gb": ["J. K. Rowling", "Prof. Smith", "St. John", "i.e. that", "Vol. 2", "£3 million"],
    "es": ["Sr. García", "Dra. Ruiz", "p. ej. esto", "3,5 km", "núm. 4"],
    "fr-fr": ["M. Dupont", "Mme Curie", "p. ex. ceci", "3,5 km", "n° 4"],
    "it": ["Sig. Rossi", "Dott. Bianchi", "p. es. questo", "3,5 km", "n. 4"],
    "pt-br": ["Sr. Silva", "Dra. Souza", "p. ex. isto", "3,5 km", "n.º 4"],
    "hi": ["डॉ. शर्मा", "5 km", "क ख"],
    "ja": ["5 km", "あ い"],
    "zh": ["5 km", "三 四"],
}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(GLUED)), st.integers(0, 10**6))
def test_no_piece_ends_inside_what_is_glued(language: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - hypothesis chooses the seed
    words = [*GLUED[language], "ab ab", "12345678901234567890"]
    text = " ".join(chance.choices(words, k=100))
    feed, at, taken = Feed(language), 0, ""
    while not feed.is_over:
        upto = at + chance.choice([1, 2, 5, 5, 5, 40])
        feed.write(text[at:upto])
        at = upto
        if at >= len(text):
            feed.close()
        while ready := feed.ready(is_first=chance.random() < 0.3):
            taken += "".join(token.source for token in feed.take(len(ready)))
            assert ready[-1].pause >= Pause.WORD or taken == text
    assert taken == text


def test_a_name_after_64_words_is_not_cut() -> None:
    feed = Feed("en-us")
    for word in ["ab"] * 65 + ["J.", "K.", "Rowling", "writes"]:
        feed.write(word + " ")
        assert not (ready := feed.ready()) or ready[-1].pause >= Pause.WORD


def test_a_long_name_at_the_end_of_what_is_read_ahead_is_read_on() -> None:
    text = "J. " * 8 + "1" * 190 + " " + "2" * 190 + " "
    feed = Feed.of(text * 5, "en-us")
    while ready := feed.ready():
        feed.take(len(ready))
        assert ready[-1].pause >= Pause.WORD or feed.is_over
    assert feed.is_over

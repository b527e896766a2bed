"""A growing text becomes ready clause by clause, and nothing is lost."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.text.tokens import Pause


def source(buffer: TextBuffer) -> str:
    return "".join(token.source for token in buffer.ready())


def test_a_growing_text_is_spoken_up_to_the_last_clause() -> None:
    buffer = TextBuffer("en-us")
    assert buffer.ready() == []
    buffer.write("Hello there")
    assert buffer.ready() == []
    buffer.write(", my friend. I am")
    assert source(buffer) == "Hello there, my friend. "
    buffer.take(len(buffer.ready()))
    assert buffer.ready() == []
    buffer.close()
    assert source(buffer) == "I am"
    buffer.take(len(buffer.ready()))
    assert buffer.is_finished


def test_words_without_punctuation_are_spoken_after_64() -> None:
    buffer = TextBuffer("en-us")
    for number in range(60):
        buffer.write(f"word{'abcdefghij'[number % 10]} ")
    assert buffer.ready() == []
    for _ in range(10):
        buffer.write("more ")
    assert len(buffer.ready()) >= 64


def test_text_after_the_end_is_ignored() -> None:
    buffer = TextBuffer("en-us")
    buffer.write("One two")
    buffer.close(continues=True)
    buffer.write(" three, four, five")
    buffer.close()
    assert source(buffer) == "One two"
    assert buffer.continues
    assert not buffer.is_finished
    buffer.take(len(buffer.ready()))
    assert buffer.is_finished


def test_an_empty_text_ends_at_once() -> None:
    buffer = TextBuffer("en-us")
    buffer.close()
    assert buffer.ready() == []
    assert buffer.is_finished


def test_a_long_text_is_tokenized_gradually() -> None:
    buffer = TextBuffer.of("A sentence of words. " * 5000, "en-us")
    assert 0 < len(buffer.ready(is_first=True)) <= 60
    assert 0 < len(buffer.ready()) <= 300
    assert buffer.unspoken == 21 * 5000


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 20_000, "\n" * 50_000, "*** " * 20_000])
def test_an_endless_text_always_has_a_segment_ready(text: str) -> None:
    buffer, taken = TextBuffer("en-us"), 0
    buffer.write(text)
    buffer.close()
    while not buffer.is_finished:
        ready = buffer.ready()
        assert ready or buffer.is_finished
        taken += sum(len(token.source) for token in buffer.take(len(ready)))
    assert taken == len(text)


def test_cancel_discards_the_text() -> None:
    buffer, stopped = TextBuffer("en-us"), list[bool]()
    buffer.on_cancel(lambda: stopped.append(True))
    buffer.write("One, two, three. ")
    buffer.cancel()
    buffer.write("four")
    assert stopped == [True]
    assert buffer.ready() == []
    assert buffer.is_finished
    assert buffer.unspoken == 0


async def test_text_and_its_end_wake_the_synthesizer() -> None:
    buffer = TextBuffer("en-us")
    acts: list[Callable[[], None]] = [lambda: buffer.write("One"), buffer.close]
    for act in acts:
        woken = asyncio.create_task(buffer.changed())
        await asyncio.sleep(0)
        assert not woken.done()
        act()
        await asyncio.wait_for(woken, 1)
        buffer.ready()


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
    buffer, written, taken = TextBuffer("en-us"), "", ""

    def take(count: int) -> None:
        nonlocal taken
        ready = buffer.ready()
        taken += "".join(token.source for token in buffer.take(min(count, len(ready))))

    for step, value in steps:
        if step == "write":
            buffer.write(value)
            written += value
        else:
            take(len(value))
        assert buffer.unspoken == len(written) - len(taken)
    buffer.close()
    while not buffer.is_finished:
        take(400)
    assert taken == written


@settings(deadline=None)
@given(st.lists(st.text("ab, .", min_size=1, max_size=12), max_size=20))
def test_a_growing_text_is_cut_after_clauses_only(deltas: list[str]) -> None:
    buffer = TextBuffer("en-us")
    for delta in deltas:
        buffer.write(delta)
        ready = buffer.ready()
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
def test_no_segment_ends_between_glued_tokens(language: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - hypothesis chooses the seed
    words = [*GLUED[language], "ab ab", "12345678901234567890"]
    text = " ".join(chance.choices(words, k=100))
    buffer, at, taken = TextBuffer(language), 0, ""
    while not buffer.is_finished:
        upto = at + chance.choice([1, 2, 5, 5, 5, 40])
        buffer.write(text[at:upto])
        at = upto
        if at >= len(text):
            buffer.close()
        while ready := buffer.ready(is_first=chance.random() < 0.3):
            taken += "".join(token.source for token in buffer.take(len(ready)))
            assert ready[-1].pause >= Pause.WORD or taken == text
    assert taken == text


def test_a_name_after_64_words_is_not_cut() -> None:
    buffer = TextBuffer("en-us")
    for word in ["ab"] * 65 + ["J.", "K.", "Rowling", "writes"]:
        buffer.write(word + " ")
        assert not (ready := buffer.ready()) or ready[-1].pause >= Pause.WORD


def test_a_long_name_at_the_end_of_the_window_extends_it() -> None:
    text = "J. " * 8 + "1" * 190 + " " + "2" * 190 + " "
    buffer = TextBuffer.of(text * 5, "en-us")
    while ready := buffer.ready():
        buffer.take(len(ready))
        assert ready[-1].pause >= Pause.WORD or buffer.is_finished
    assert buffer.is_finished

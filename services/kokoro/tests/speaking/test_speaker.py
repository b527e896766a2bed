"""Speech starts soon, never runs dry and says all of its text, by a clock that stands still."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hearth_kokoro.engines import MAX_PHONEMES, SAMPLE_RATE, Samples
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.speaking.speaker import Piece, Speaker

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices

PHRASE = (
    "The quick brown fox jumps over the lazy dog. It then went home to sleep until the morning."
)
LONG = (PHRASE + " Yes, indeed, it did so; and so do I!\n\n") * 68
VOICE = ScriptedVoices().get("af_heart")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a listener had, and when."""

    pieces: list[Piece]
    at_s: list[float]
    whole_s: float

    @property
    def samples(self) -> Samples:
        return np.concatenate([piece.samples for piece in self.pieces])

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def dry_s(self) -> float:
        """Return for how long a player that began with the first sound had nothing to play."""
        until, dry = self.at_s[0], 0.0
        for piece, at in zip(self.pieces, self.at_s, strict=True):
            dry += max(0.0, at - until)
            until = max(at, until) + piece.samples.size / SAMPLE_RATE
        return dry


@asynccontextmanager
async def speaking(
    engine: ScriptedEngine, phonemizer: ScriptedPhonemizer | None = None, max_active: int = 32
) -> AsyncIterator[Speaker]:
    phonemizer = phonemizer or ScriptedPhonemizer()
    speaker = Speaker(
        engine, ScriptedVoices(), phonemizer, clock=engine.clock, max_active=max_active
    )
    await speaker.start()
    engine.asked.clear()
    try:
        yield speaker
    finally:
        engine.gate.set()
        await speaker.close()


async def hear(speaker: Speaker, engine: ScriptedEngine, feed: Feed, speed: float = 1.0) -> Heard:
    began, pieces, at_s = engine.clock(), list[Piece](), list[float]()
    async for piece in speaker.speak(feed, VOICE, speed):
        pieces.append(piece)
        at_s.append(engine.clock() - began)
    return Heard(pieces, at_s, engine.clock() - began)


def heard(text: str, engine: ScriptedEngine | None = None, per_letter: int = 1) -> Heard:
    """Speak one text alone, from start to end."""

    async def go() -> Heard:
        used = engine or ScriptedEngine()
        async with speaking(used, ScriptedPhonemizer(per_letter)) as speaker:
            return await hear(speaker, used, Feed.of(text, "en-us"))

    return asyncio.run(go())


@pytest.mark.parametrize("per_phoneme_s", [0.014, 0.02, 0.028, 0.034])
def test_the_phrase_reaches_what_is_promised(per_phoneme_s: float) -> None:
    got = heard(PHRASE, ScriptedEngine(per_phoneme_s=per_phoneme_s))
    whole_s = 0.06 + per_phoneme_s * len(PHRASE)
    assert got.text == PHRASE
    assert got.at_s[0] <= 0.2 * whole_s
    assert got.whole_s <= 1.15 * whole_s
    assert got.dry_s() == 0


@pytest.mark.parametrize("per_phoneme_s", [0.0005, 0.014, 0.028, 0.05])
def test_8700_characters_never_run_dry_in_few_pieces(per_phoneme_s: float) -> None:
    got = heard(LONG, ScriptedEngine(per_phoneme_s=per_phoneme_s))
    assert got.text == LONG
    assert len(LONG) > 8600
    assert got.dry_s() == 0
    assert len(got.pieces) <= len(LONG) / 100
    assert max(len(piece.text) for piece in got.pieces) <= 260


def test_pieces_grow_and_later_ones_are_whole_sentences() -> None:
    got = heard(LONG)
    sizes = [len(piece.text) for piece in got.pieces]
    assert sizes[0] < 20 < sizes[4]
    assert max(sizes) > 100
    assert all(piece.text.rstrip()[-1] in ".!?" for piece in got.pieces[6:])


def test_joined_is_streamed_to_the_last_sample() -> None:
    async def slowly(engine: ScriptedEngine) -> Samples:
        async with speaking(engine) as speaker:
            parts = []
            async for piece in speaker.speak(Feed.of(LONG[:2000], "en-us"), VOICE, 1.0):
                parts.append(piece.samples)
                await asyncio.sleep(0.002)
            return np.concatenate(parts)

    streamed = asyncio.run(slowly(ScriptedEngine()))
    np.testing.assert_array_equal(streamed, heard(LONG[:2000]).samples)


def test_a_file_has_the_cuts_that_were_heard_though_the_machine_slowed_down() -> None:
    async def heard_then_saved(waits_for_all: bool) -> tuple[list[str], list[str]]:
        engine = ScriptedEngine()
        async with speaking(engine) as speaker:
            first = await hear(speaker, engine, Feed.of(LONG[:2000], "en-us"))
            engine.per_phoneme_s *= 2.5
            await hear(speaker, engine, Feed.of("Something else meanwhile. " * 20, "en-us"))
            listener = Listener(waits_for_all=waits_for_all)
            feed = Feed.of(LONG[:2000], "en-us")
            again = [piece.text async for piece in speaker.speak(feed, VOICE, 1.0, listener)]
            return [piece.text for piece in first.pieces], again

    once, saved = asyncio.run(heard_then_saved(waits_for_all=True))
    assert saved == once
    once, again = asyncio.run(heard_then_saved(waits_for_all=False))
    assert again != once


def test_a_repeat_begins_at_once_and_sounds_the_same() -> None:
    async def twice() -> tuple[Heard, Heard]:
        engine = ScriptedEngine()
        async with speaking(engine) as speaker:
            got = [await hear(speaker, engine, Feed.of(PHRASE, "en-us")) for _ in range(2)]
            assert speaker.describe()["caches"]["first_pieces"]["hits"] == 1  # type: ignore[index]
            return got[0], got[1]

    first, again = asyncio.run(twice())
    assert first.at_s[0] > 0.1
    assert again.at_s[0] == 0
    np.testing.assert_array_equal(first.samples, again.samples)


def test_another_speed_or_voice_is_not_taken_from_the_cache() -> None:
    async def go() -> None:
        engine = ScriptedEngine()
        async with speaking(engine) as speaker:
            await hear(speaker, engine, Feed.of(PHRASE, "en-us"))
            faster = await hear(speaker, engine, Feed.of(PHRASE, "en-us"), speed=2.0)
            assert faster.at_s[0] > 0
            other = ScriptedVoices().get("bm_fable")
            before = engine.clock()
            async with aclosing(speaker.speak(Feed.of(PHRASE, "en-us"), other, 1.0)) as pieces:
                await anext(pieces)
                assert engine.clock() > before

    asyncio.run(go())


def test_too_many_phonemes_are_cut_again() -> None:
    engine = ScriptedEngine(sound_s=0.02, per_phoneme_s=0.001)
    text = "A sentence whose letters are many phonemes each, and it is long. " * 20
    got = heard(text, engine, per_letter=6)
    assert got.text == text
    assert len(got.pieces) == len(engine.asked)
    assert max(map(len, engine.asked)) > MAX_PHONEMES / 2


def test_one_word_with_too_many_phonemes_is_made_in_parts() -> None:
    engine = ScriptedEngine(sound_s=0.02)
    word = "Rindfleischetikettierungs" * 6
    got = heard(f"The {word} is.", engine, per_letter=5)
    assert got.text == f"The {word} is."
    assert sum(len(asked.replace(" ", "")) for asked in engine.asked) >= 5 * len(word)


@pytest.mark.parametrize("text", ["...", "—", " \n ", "?!", "***"])
def test_what_nobody_says_is_no_error(text: str) -> None:
    assert heard(text).text == text


def test_an_empty_text_has_no_pieces() -> None:
    async def go() -> list[Piece]:
        engine = ScriptedEngine()
        async with speaking(engine) as speaker:
            return [p async for p in speaker.speak(Feed.of("", "en-us"), VOICE, 1.0)]

    assert asyncio.run(go()) == []


WORD = st.text("abcdefghijklmnop", min_size=1, max_size=12)
MARK = st.sampled_from(["", "", "", "", ",", ".", "!", ";", ".\n\n"])
PROSE = st.lists(st.tuples(WORD, MARK).map("".join), min_size=1, max_size=120).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(
    PROSE,
    st.floats(0.01, 0.15),
    st.floats(0.05, 0.75),
    st.sampled_from([0.5, 1.0, 2.0]),
)
# A first piece whose cost is mostly fixed: the word after its clause was too late.
@example("a, aaaaaa", 0.14, 0.28, 2.0)
# The space after a first piece was counted as sound.
@example("a aaa aaaaaaaaaaaa", 0.0794, 0.4136, 0.5)
def test_speech_never_runs_dry(text: str, fixed_s: float, rtf: float, speed: float) -> None:
    engine = ScriptedEngine(fixed_s=fixed_s, per_phoneme_s=0.075 * rtf)

    async def go() -> Heard:
        async with speaking(engine) as speaker:
            return await hear(speaker, engine, Feed.of(text, "en-us"), speed)

    got = asyncio.run(go())
    assert got.text == text
    assert got.dry_s() <= 0.02
    assert [piece.index for piece in got.pieces] == list(range(len(got.pieces)))


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=400), st.integers(1, 4))
def test_no_character_of_any_text_is_lost(text: str, per_letter: int) -> None:
    assert heard(text, ScriptedEngine(sound_s=0.01), per_letter).text == text


DELTAS = st.lists(
    st.one_of(st.text("abc,. \n1'*", min_size=1, max_size=12), st.just("WAIT")),
    max_size=40,
)


@settings(deadline=None, max_examples=40)
@given(DELTAS, st.integers(-10, 40))
def test_an_open_text_loses_nothing_until_it_is_cancelled(deltas: list[str], at: int) -> None:
    async def go() -> None:
        engine, feed, written = ScriptedEngine(sound_s=0.01), Feed("en-us"), ""
        async with speaking(engine) as speaker:
            listener = asyncio.create_task(hear(speaker, engine, feed))
            for index, delta in enumerate(deltas):
                if index == at:
                    feed.cancel()
                    break
                if delta == "WAIT":
                    await asyncio.sleep(0.001)
                else:
                    feed.write(delta)
                    written += delta
            feed.close()
            got = await asyncio.wait_for(listener, 5)
        assert got.text == written if not feed.is_cancelled else written.startswith(got.text)

    asyncio.run(go())

"""Speech starts early, plays without gaps and contains the whole text, by a scripted clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hearth_kokoro.engines import MAX_PHONEMES, SAMPLE_RATE, Samples
from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Segment, Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices

PHRASE = (
    "The quick brown fox jumps over the lazy dog. It then went home to sleep until the morning."
)
LONG = (PHRASE + " Yes, indeed, it did so; and so do I!\n\n") * 68
VOICE = ScriptedVoices().get("af_heart")


@dataclass(frozen=True, slots=True)
class Heard:
    """The sound that a client received, and when."""

    segments: list[Segment]
    at_s: list[float]
    whole_s: float

    @property
    def samples(self) -> Samples:
        return np.concatenate([segment.samples for segment in self.segments])

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)

    def dry_s(self) -> float:
        """Return how long a player that starts with the first sound has nothing to play."""
        until, dry = self.at_s[0], 0.0
        for segment, at in zip(self.segments, self.at_s, strict=True):
            dry += max(0.0, at - until)
            until = max(at, until) + segment.samples.size / SAMPLE_RATE
        return dry


@asynccontextmanager
async def speaking(
    engine: ScriptedEngine, phonemizer: ScriptedPhonemizer | None = None, max_active: int = 32
) -> AsyncIterator[Synthesizer]:
    phonemizer = phonemizer or ScriptedPhonemizer()
    synthesizer = Synthesizer(
        engine, ScriptedVoices(), phonemizer, clock=engine.clock, max_active=max_active
    )
    await synthesizer.start()
    engine.requested.clear()
    try:
        yield synthesizer
    finally:
        engine.gate.set()
        await synthesizer.close()


async def hear(
    synthesizer: Synthesizer,
    engine: ScriptedEngine,
    buffer: TextBuffer,
    speed: float = 1.0,
    playback: Playback | None = None,
) -> Heard:
    began, segments, at_s = engine.clock(), list[Segment](), list[float]()
    async for segment in synthesizer.speak(buffer, VOICE, speed, playback):
        segments.append(segment)
        at_s.append(engine.clock() - began)
    return Heard(segments, at_s, engine.clock() - began)


def heard(text: str, engine: ScriptedEngine | None = None, per_letter: int = 1) -> Heard:
    """Speak one text alone, from start to end."""

    async def go() -> Heard:
        used = engine or ScriptedEngine()
        async with speaking(used, ScriptedPhonemizer(per_letter)) as synthesizer:
            return await hear(synthesizer, used, TextBuffer.of(text, "en-us"))

    return asyncio.run(go())


@pytest.mark.parametrize("per_phoneme_s", [0.014, 0.02, 0.028, 0.034])
def test_the_phrase_meets_the_latency_goal(per_phoneme_s: float) -> None:
    got = heard(PHRASE, ScriptedEngine(per_phoneme_s=per_phoneme_s))
    whole_s = 0.06 + per_phoneme_s * len(PHRASE)
    assert got.text == PHRASE
    assert got.at_s[0] <= 0.2 * whole_s
    assert got.whole_s <= 1.15 * whole_s
    assert got.dry_s() == 0


@pytest.mark.parametrize("per_phoneme_s", [0.0005, 0.014, 0.028, 0.05])
def test_8700_characters_play_without_a_gap_in_few_segments(per_phoneme_s: float) -> None:
    got = heard(LONG, ScriptedEngine(per_phoneme_s=per_phoneme_s))
    assert got.text == LONG
    assert len(LONG) > 8600
    assert got.dry_s() == 0
    assert len(got.segments) <= len(LONG) / 100
    assert max(len(segment.text) for segment in got.segments) <= 260


def test_segments_grow_and_later_ones_are_whole_sentences() -> None:
    got = heard(LONG)
    sizes = [len(segment.text) for segment in got.segments]
    assert sizes[0] < 20 < sizes[4]
    assert max(sizes) > 100
    assert all(segment.text.rstrip()[-1] in ".!?" for segment in got.segments[6:])


def test_whole_and_streamed_speech_are_equal_to_the_last_sample() -> None:
    async def slowly(engine: ScriptedEngine) -> Samples:
        async with speaking(engine) as synthesizer:
            split_phonemes = []
            async for segment in synthesizer.speak(TextBuffer.of(LONG[:2000], "en-us"), VOICE, 1.0):
                split_phonemes.append(segment.samples)
                await asyncio.sleep(0.002)
            return np.concatenate(split_phonemes)

    streamed = asyncio.run(slowly(ScriptedEngine()))
    np.testing.assert_array_equal(streamed, heard(LONG[:2000]).samples)


def test_a_file_has_the_segments_of_the_stream_on_a_slower_machine_too() -> None:
    async def heard_then_saved(starts_when_complete: bool) -> tuple[list[str], list[str]]:
        engine = ScriptedEngine()
        async with speaking(engine) as synthesizer:
            first = await hear(synthesizer, engine, TextBuffer.of(LONG[:2000], "en-us"))
            engine.per_phoneme_s *= 2.5
            await hear(
                synthesizer, engine, TextBuffer.of("Something else meanwhile. " * 20, "en-us")
            )
            playback = Playback(starts_when_complete=starts_when_complete)
            buffer = TextBuffer.of(LONG[:2000], "en-us")
            again = [
                segment.text async for segment in synthesizer.speak(buffer, VOICE, 1.0, playback)
            ]
            return [segment.text for segment in first.segments], again

    once, saved = asyncio.run(heard_then_saved(starts_when_complete=True))
    assert saved == once
    once, again = asyncio.run(heard_then_saved(starts_when_complete=False))
    assert again != once


def test_a_repeat_starts_at_once_with_the_same_sound() -> None:
    async def twice() -> tuple[Heard, Heard]:
        engine = ScriptedEngine()
        async with speaking(engine) as synthesizer:
            got = [
                await hear(synthesizer, engine, TextBuffer.of(PHRASE, "en-us")) for _ in range(2)
            ]
            assert synthesizer.describe()["caches"]["first_pieces"]["hits"] == 1  # type: ignore[index]
            return got[0], got[1]

    first, again = asyncio.run(twice())
    assert first.at_s[0] > 0.1
    assert again.at_s[0] == 0
    np.testing.assert_array_equal(first.samples, again.samples)


def test_the_cache_distinguishes_speeds_and_voices() -> None:
    async def go() -> None:
        engine = ScriptedEngine()
        async with speaking(engine) as synthesizer:
            await hear(synthesizer, engine, TextBuffer.of(PHRASE, "en-us"))
            faster = await hear(synthesizer, engine, TextBuffer.of(PHRASE, "en-us"), speed=2.0)
            assert faster.at_s[0] > 0
            other = ScriptedVoices().get("bm_fable")
            before = engine.clock()
            async with aclosing(
                synthesizer.speak(TextBuffer.of(PHRASE, "en-us"), other, 1.0)
            ) as segments:
                await anext(segments)
                assert engine.clock() > before

    asyncio.run(go())


def test_a_segment_with_too_many_phonemes_is_split() -> None:
    engine = ScriptedEngine(sound_s=0.02, per_phoneme_s=0.001)
    text = "A sentence whose letters are many phonemes each, and it is long. " * 20
    got = heard(text, engine, per_letter=6)
    assert got.text == text
    assert len(got.segments) == len(engine.requested)
    assert max(map(len, engine.requested)) > MAX_PHONEMES / 2


def test_one_word_with_too_many_phonemes_is_split() -> None:
    engine = ScriptedEngine(sound_s=0.02)
    word = "Rindfleischetikettierungs" * 6
    got = heard(f"The {word} is.", engine, per_letter=5)
    assert got.text == f"The {word} is."
    assert sum(len(requested.replace(" ", "")) for requested in engine.requested) >= 5 * len(word)


@pytest.mark.parametrize("text", ["...", "—", " \n ", "?!", "***"])
def test_a_text_without_words_is_not_an_error(text: str) -> None:
    assert heard(text).text == text


def test_an_empty_text_has_no_segments() -> None:
    async def go() -> list[Segment]:
        engine = ScriptedEngine()
        async with speaking(engine) as synthesizer:
            return [p async for p in synthesizer.speak(TextBuffer.of("", "en-us"), VOICE, 1.0)]

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
def test_speech_plays_without_a_gap(text: str, fixed_s: float, rtf: float, speed: float) -> None:
    engine = ScriptedEngine(fixed_s=fixed_s, per_phoneme_s=0.075 * rtf)

    async def go() -> Heard:
        async with speaking(engine) as synthesizer:
            return await hear(synthesizer, engine, TextBuffer.of(text, "en-us"), speed)

    got = asyncio.run(go())
    assert got.text == text
    assert got.dry_s() <= 0.02
    assert [segment.index for segment in got.segments] == list(range(len(got.segments)))


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
def test_a_growing_text_loses_nothing_until_it_is_cancelled(deltas: list[str], at: int) -> None:
    async def go() -> None:
        engine, buffer, written = ScriptedEngine(sound_s=0.01), TextBuffer("en-us"), ""
        async with speaking(engine) as synthesizer:
            playback = asyncio.create_task(hear(synthesizer, engine, buffer))
            for index, delta in enumerate(deltas):
                if index == at:
                    buffer.cancel()
                    break
                if delta == "WAIT":
                    await asyncio.sleep(0.001)
                else:
                    buffer.write(delta)
                    written += delta
            buffer.close()
            got = await asyncio.wait_for(playback, 5)
        assert got.text == written if not buffer.is_cancelled else written.startswith(got.text)

    asyncio.run(go())


async def test_a_segment_says_how_long_its_stages_took() -> None:
    engine = ScriptedEngine()

    class SlowPhonemizer(ScriptedPhonemizer):
        def phonemes(self, text: str, language: str) -> str:
            engine.clock.advance(0.02)
            return super().phonemes(text, language)

    async with speaking(engine, SlowPhonemizer()) as synthesizer:
        for known in (False, True):
            heard = await hear(synthesizer, engine, TextBuffer.of("Hello there.", "en-us"))
            (segment,) = heard.segments
            # The first segments of a speech are remembered with their phonemes.
            assert segment.work.phonemes_s == pytest.approx(0 if known else 0.02)
            inferred = sum(engine.fixed_s + engine.per_phoneme_s * len(p) for p in engine.requested)
            assert segment.work.inference_s == pytest.approx(0 if known else inferred)
            engine.requested.clear()

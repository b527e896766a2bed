"""On a slow machine the first sound waits until nothing can stall; on a fast one it never does."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_kokoro.engines import Samples, StopSignal, Styles
from hearth_kokoro.synthesis.lead import Demand, shortage_s
from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer

from ..scripted import ScriptedEngine
from .test_synthesizer import LONG, PROSE, VOICE, Heard, hear, speaking

SOUND_S = 0.075
TEXT = (
    "the quick brown fox jumps over a lazy dog and goes home, to sleep until morning, indeed; "
    "nobody there had seen it before or knows why, and so do I as often as there is time for it"
)


def text_of(sentences: int) -> str:
    """Return sentences of 8 to 16 words in an order of their own: none is in a cache."""
    made = []
    for n in range(sentences):
        words = random.Random(n).sample(TEXT.split(), 8 + 3 * n % 9)  # noqa: S311
        made.append(" ".join(words).strip(",;").capitalize() + ".")
    return " ".join(made)


def at_rtf(rtf: float, fixed_s: float = 0.06) -> ScriptedEngine:
    return ScriptedEngine(per_phoneme_s=SOUND_S * rtf, fixed_s=fixed_s)


def heard(text: str, engine: ScriptedEngine, speed: float = 1.0, **playback: Any) -> Heard:
    async def go() -> Heard:
        async with speaking(engine) as synthesizer:
            buffer = TextBuffer.of(text, "en-us")
            return await hear(synthesizer, engine, buffer, speed, Playback(**playback))

    return asyncio.run(go())


@pytest.mark.parametrize("sentences", [1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("rtf", [0.3, 0.63, 1.0, 1.5])
def test_nothing_stalls_at_any_pace_and_length(rtf: float, sentences: int) -> None:
    text = text_of(sentences)
    got = heard(text, at_rtf(rtf))
    assert got.text == text
    assert got.dry_s() == 0
    assert got.segments[0].held_s <= got.at_s[0]


@pytest.mark.parametrize("rtf", [0.63, 1.0, 1.5])
def test_8700_characters_do_not_stall_on_a_slow_machine(rtf: float) -> None:
    got = heard(LONG, at_rtf(rtf))
    assert got.text == LONG
    assert got.dry_s() == 0


@pytest.mark.parametrize("sentences", [1, 2, 5, 20])
@pytest.mark.parametrize("rtf", [0.05, 0.3, 0.38])
def test_a_fast_machine_starts_as_if_asked_for_the_early_start(rtf: float, sentences: int) -> None:
    got = heard(text_of(sentences), at_rtf(rtf))
    early = heard(text_of(sentences), at_rtf(rtf), early=True)
    assert got.at_s == early.at_s
    assert all(segment.held_s == 0 for segment in got.segments)


@pytest.mark.parametrize("sentences", [2, 5, 8])
def test_the_early_start_stalls_on_a_slow_machine(sentences: int) -> None:
    got = heard(text_of(sentences), at_rtf(1.0), early=True)
    # The first segment alone: a few words.
    assert got.at_s[0] < 2
    assert got.dry_s() > 0.1
    assert all(segment.held_s == 0 for segment in got.segments)


@pytest.mark.parametrize("sentences", [2, 5, 20])
@pytest.mark.parametrize("rtf", [0.63, 0.8, 1.0, 1.5])
def test_the_wait_is_hardly_longer_than_needed(rtf: float, sentences: int) -> None:
    got = heard(text_of(sentences), at_rtf(rtf))
    audio_s = sum(segment.samples.size for segment in got.segments) / 24_000
    # What no order of work avoids, a margin for the pace and the pauses, and two short segments.
    needed_s = max(0, got.whole_s - audio_s + 0.15 * got.whole_s)
    assert got.at_s[0] <= needed_s + 2 * 30 * rtf * SOUND_S + 0.3


@settings(deadline=None, max_examples=60)
@given(PROSE, st.floats(0.01, 0.15), st.floats(0.05, 2.0), st.sampled_from([0.5, 1.0, 2.0]))
def test_no_text_stalls(text: str, fixed_s: float, rtf: float, speed: float) -> None:
    got = heard(text, at_rtf(rtf, fixed_s=fixed_s), speed)
    assert got.text == text
    assert got.dry_s() <= 0.02


class Uneven(ScriptedEngine):
    """Takes up to a fifth more or less time for each inference, as a real machine does."""

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        usual_s = self.per_phoneme_s
        self.per_phoneme_s *= random.Random(phonemes).uniform(0.8, 1.2)  # noqa: S311
        try:
            return ScriptedEngine.infer(self, phonemes, voice, speed, stop)
        finally:
            self.per_phoneme_s = usual_s


@pytest.mark.parametrize("rtf", [0.55, 0.63, 0.8, 1.0, 1.5])
def test_an_uneven_pace_does_not_stall(rtf: float) -> None:
    for sentences in (1, 2, 3, 4, 6, 9, 12):
        got = heard(text_of(sentences), Uneven(per_phoneme_s=SOUND_S * rtf))
        assert got.dry_s() <= 0.02, sentences


def test_a_repeat_on_a_slow_machine_starts_at_once_and_does_not_stall() -> None:
    async def twice() -> tuple[Heard, Heard]:
        engine = at_rtf(1.0)
        async with speaking(engine) as synthesizer:
            first, again = [
                await hear(synthesizer, engine, TextBuffer.of(text_of(6), "en-us"))
                for _ in range(2)
            ]
            return first, again

    first, again = asyncio.run(twice())
    assert first.segments[0].held_s > 1
    assert again.at_s[0] == 0
    assert again.dry_s() == 0
    assert (again.samples == first.samples).all()


def test_a_whole_file_is_never_held_back() -> None:
    got = heard(text_of(5), at_rtf(1.5), starts_when_complete=True)
    assert all(segment.held_s == 0 for segment in got.segments)


def test_the_client_is_told_how_long_it_waits() -> None:
    told: list[float] = []

    async def go() -> Heard:
        engine = at_rtf(1.5)
        async with speaking(engine) as synthesizer:
            buffer = TextBuffer.of(text_of(5), "en-us")
            playback = Playback(on_hold=told.append)
            return await hear(synthesizer, engine, buffer, playback=playback)

    got = asyncio.run(go())
    held_s = got.segments[0].held_s
    assert told[0] == pytest.approx(held_s, rel=0.3)
    assert told == sorted(told, reverse=True)
    assert got.at_s[0] > held_s > 5


async def test_text_that_waits_for_its_writer_is_not_held_back() -> None:
    engine, buffer = at_rtf(1.5), TextBuffer("en-us")
    async with speaking(engine) as synthesizer:
        segments = synthesizer.speak(buffer, VOICE, 1.0)
        buffer.write("Well, it")
        segment = await asyncio.wait_for(anext(segments), 5)
        assert segment.text == "Well, "
        await segments.aclose()


async def test_a_cancelled_speech_drops_what_was_held_back() -> None:
    engine, buffer = at_rtf(1.5), TextBuffer.of(text_of(8), "en-us")
    held = asyncio.Event()
    async with speaking(engine) as synthesizer:
        speech = synthesizer.speak(buffer, VOICE, 1.0, Playback(on_hold=lambda _: held.set()))
        first = asyncio.create_task(anext(speech, None))
        await asyncio.wait_for(held.wait(), 5)
        engine.gate.clear()
        buffer.cancel()
        assert await asyncio.wait_for(first, 5) is None


class Turns(ScriptedEngine):
    """Moves the clock only when the event loop has handled what happened before."""

    loop: asyncio.AbstractEventLoop
    synthesizer: Synthesizer

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        if hasattr(self, "synthesizer"):
            asyncio.run_coroutine_threadsafe(self._settle(), self.loop).result(5)
        return ScriptedEngine.infer(self, phonemes, voice, speed, stop)

    async def _settle(self) -> None:
        for _ in range(8):
            await self.synthesizer._context.in_side_thread(lambda: None)
            await asyncio.sleep(0)


def heard_together(rtf: float, texts: Sequence[str], **playback: Any) -> list[Heard]:
    async def go() -> list[Heard]:
        engine = Turns(per_phoneme_s=SOUND_S * rtf)
        async with speaking(engine) as synthesizer:
            engine.loop, engine.synthesizer = asyncio.get_running_loop(), synthesizer
            listeners = (
                hear(
                    synthesizer, engine, TextBuffer.of(text, "en-us"), playback=Playback(**playback)
                )
                for text in texts
            )
            return list(await asyncio.gather(*listeners))

    return asyncio.run(go())


@pytest.mark.parametrize("rtf", [0.55, 0.63, 1.0])
@pytest.mark.parametrize("clients", [2, 4])
def test_several_clients_do_not_stall(rtf: float, clients: int) -> None:
    texts = [f"Client {n} speaks. {text_of(2 + 2 * n)}" for n in range(clients)]
    for got, text in zip(heard_together(rtf, texts), texts, strict=True):
        assert got.text == text
        assert got.dry_s() <= 0.02


@pytest.mark.parametrize(
    ("demands", "late_s"),
    [
        ([], 0.0),
        # Fast: the next segment is ready before the last one has been played.
        ([Demand(1.0, 3.0, 10.0, 0.5)], 0.0),
        # As fast as sound plays: one segment ahead is enough.
        ([Demand(1.0, 10.0, 10.0, 1.0)], 0.0),
        ([Demand(0.4, 3.0, 10.0, 0.5)], 0.1),
        ([Demand(1.0, 15.0, 10.0, 1.0)], 5.0),
        # Two that would not stall alone.
        ([Demand(1.0, 8.0, 10.0, 0.5), Demand(1.0, 8.0, 10.0, 0.5)], 6.0),
    ],
)
def test_the_shortage_of_players_that_share_an_engine(demands: list[Demand], late_s: float) -> None:
    assert shortage_s(demands) == pytest.approx(late_s)

"""Speeches beside each other: who leaves, who is slow, who is one too many, what breaks."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing

import pytest

from hearth_kokoro.engines import SAMPLE_RATE, Samples, Stop, Styles
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.joins import Joiner, trim
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.speaking.speaker import Piece, Speaker
from hearth_kokoro.speaking.work import InferenceResult, Order
from hearth_serving.errors import ServiceError

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices

VOICE = ScriptedVoices().get("af_heart")
TEXT = "One sentence follows another, and each is as long as this one. " * 12


async def started(
    engine: ScriptedEngine, *, max_active: int = 32, phonemizer: ScriptedPhonemizer | None = None
) -> Speaker:
    speaker = Speaker(
        engine,
        ScriptedVoices(),
        phonemizer or ScriptedPhonemizer(),
        clock=engine.clock,
        max_active=max_active,
    )
    await speaker.start()
    engine.asked.clear()
    return speaker


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        # Another thread makes it true, and knows nothing of this event loop.
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def collect(speaker: Speaker, text: str) -> list[Piece]:
    return [piece async for piece in speaker.speak(Feed.of(text, "en-us"), VOICE, 1.0)]


async def test_who_leaves_stops_the_work() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    engine.tick_s = 0.001
    async with aclosing(speaker.speak(Feed.of(TEXT, "en-us"), VOICE, 1.0)) as pieces:
        await anext(pieces)
        await until(lambda: len(engine.asked) == 2)
        # Far longer than `until` waits: who is done then was stopped.
        engine.tick_s = 1.0
        await anext(pieces)
        await until(lambda: len(engine.asked) == 3)
    await until(lambda: len(engine.stopped) == 1)
    assert speaker.active == 0
    await speaker.close()


async def test_a_task_that_is_cancelled_stops_the_work() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    engine.gate.clear()
    listener = asyncio.create_task(collect(speaker, TEXT))
    await until(lambda: len(engine.asked) == 1)
    listener.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listener
    await until(lambda: len(engine.stopped) == 1)
    assert speaker.active == 0
    await speaker.close()


async def test_a_cancelled_feed_ends_its_speech_and_no_other() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    engine.gate.clear()
    feed = Feed.of(TEXT, "en-us")
    pieces = speaker.speak(feed, VOICE, 1.0)
    waiting = asyncio.create_task(anext(pieces, None))
    await until(lambda: len(engine.asked) == 1)
    feed.cancel()
    assert await asyncio.wait_for(waiting, 5) is None
    await until(lambda: len(engine.stopped) == 1)
    engine.gate.set()
    assert "".join(piece.text for piece in await collect(speaker, TEXT)) == TEXT
    await speaker.close()


async def test_a_slow_reader_has_one_piece_ahead_and_holds_nobody_up() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    async with aclosing(speaker.speak(Feed.of(TEXT, "en-us"), VOICE, 1.0)) as slow:
        await anext(slow)
        await until(lambda: len(engine.asked) == 2)
        await asyncio.sleep(0.05)
        assert len(engine.asked) == 2
        other = "Quite another text, which is read at once. "
        assert "".join(piece.text for piece in await collect(speaker, other)) == other
        rest = [piece.text async for piece in slow]
    assert TEXT.endswith("".join(rest))
    await speaker.close()


async def test_four_at_once_all_begin_before_any_goes_on() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    engine.gate.clear()
    names = ("Red", "Blue", "Green", "Brown")
    texts = [f"{name} is the first word, and more words come after it. " * 3 for name in names]
    listeners = [asyncio.create_task(collect(speaker, text)) for text in texts]
    await until(lambda: speaker.waiting == 3)
    engine.gate.set()
    got = await asyncio.gather(*listeners)
    assert [["".join(piece.text for piece in pieces)][0] for pieces in got] == texts
    assert {asked.split()[0] for asked in engine.asked[:4]} == set(names)
    await speaker.close()


async def test_one_too_many_is_refused_with_an_honest_wait() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine, max_active=2)
    engine.gate.clear()
    listeners = [asyncio.create_task(collect(speaker, TEXT)) for _ in range(2)]
    await until(lambda: speaker.waiting == 1)
    with pytest.raises(ServiceError, match="2 requests") as refused:
        speaker.speak(Feed.of("One more.", "en-us"), VOICE, 1.0)
    assert refused.value.status == 429
    # 756 characters each at 0.028 s: two of them take 42 s.
    assert 35 <= (refused.value.retry_after_s or 0) <= 50
    engine.gate.set()
    await asyncio.gather(*listeners)
    assert await collect(speaker, "One more.")
    await speaker.close()


async def test_sixty_four_at_once_are_spoken_or_refused() -> None:
    engine = ScriptedEngine(sound_s=0.01)
    speaker = await started(engine)
    got = await asyncio.gather(
        *[collect(speaker, f"Number {n} speaks, for a while.") for n in range(64)],
        return_exceptions=True,
    )
    refused = [each for each in got if isinstance(each, ServiceError)]
    assert all(error.status == 429 for error in refused)
    assert len(got) - len(refused) >= 32
    assert speaker.active == 0
    await speaker.close()


class Broken(ScriptedEngine):
    """Fails at one word."""

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: Stop) -> Samples:
        if "broken" in phonemes:
            raise RuntimeError("no such node")
        return super().infer(phonemes, voice, speed, stop)


async def test_an_engine_that_fails_is_one_line_and_one_request() -> None:
    speaker = await started(Broken())
    with pytest.raises(ServiceError, match="no such node") as failed:
        await collect(speaker, "This is broken.")
    assert failed.value.status == 500
    assert await collect(speaker, "This is not.")
    await speaker.close()


async def test_phonemes_are_never_made_on_the_event_loop_and_once_for_a_text() -> None:
    engine, phonemizer = ScriptedEngine(), ScriptedPhonemizer()
    speaker = await started(engine, phonemizer=phonemizer)
    await collect(speaker, TEXT)
    calls = phonemizer.calls
    await collect(speaker, TEXT)
    assert phonemizer.calls == calls
    assert threading.main_thread().name not in phonemizer.threads
    await speaker.close()


async def test_a_listener_who_ran_dry_for_want_of_text_is_answered_like_a_new_one() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    feed = Feed("en-us")
    pieces = speaker.speak(feed, VOICE, 1.0)
    feed.write("Well, it")
    assert (await anext(pieces)).text == "Well, "
    await asyncio.sleep(0.01)
    engine.clock.advance(60)
    feed.write(" is a sentence that came very late to be spoken at once. ")
    feed.close()
    # Later pieces without any lead are single words; a first one has two at least.
    assert 2 <= len((await anext(pieces)).text.split()) <= 4
    await pieces.aclose()
    await speaker.close()


async def test_a_text_that_waits_for_its_writer_takes_nobodys_place() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine, max_active=1)
    feed = Feed("en-us")
    listener = asyncio.create_task(anext(speaker.speak(feed, VOICE, 1.0)))
    await until(lambda: speaker.active == 1)
    assert await collect(speaker, "Another speaks meanwhile.")
    engine.gate.clear()
    engine.asked.clear()
    feed.write("Now there is something to say, and")
    await until(lambda: bool(engine.asked))
    with pytest.raises(ServiceError, match="1 requests") as refused:
        await collect(speaker, "One more.")
    assert refused.value.status == 429
    engine.gate.set()
    assert await listener
    await speaker.close()


async def test_sound_is_never_worked_on_by_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[str]()

    def seen(act: Callable[..., Samples]) -> Callable[..., Samples]:
        def noted(*args: object) -> Samples:
            threads.add(threading.current_thread().name)
            return act(*args)

        return noted

    monkeypatch.setattr(Joiner, "join", seen(Joiner.join))
    monkeypatch.setattr("hearth_kokoro.speaking.session.trim", seen(trim))
    speaker = await started(ScriptedEngine())
    await collect(speaker, TEXT)
    assert len(threads) == 1
    assert threading.main_thread().name not in threads
    await speaker.close()


class Orders(list[Order]):
    """Every order that a speaker's engine is given."""

    def __init__(self, speaker: Speaker) -> None:
        work = speaker._context.work
        do = work.do

        async def noted(order: Order) -> InferenceResult:
            self.append(order)
            return await do(order)

        work.do = noted  # type: ignore[method-assign]


async def spoken_after(listener: Listener, *, dry: bool) -> tuple[Orders, list[Piece], list[Piece]]:
    """Speak two texts to one listener, who had all of the first one or not."""
    engine = ScriptedEngine()
    speaker = await started(engine)
    orders = Orders(speaker)
    first = Feed("en-us")
    first.write("A first sentence is said.")
    first.close(goes_on=True)
    one = [piece async for piece in speaker.speak(first, VOICE, 1.0, listener)]
    engine.clock.advance(60 if dry else 0)
    orders.clear()
    second = Feed.of("And then there comes a second one of many words.", "en-us")
    two = [piece async for piece in speaker.speak(second, VOICE, 1.0, listener)]
    await speaker.close()
    return orders, one, two


async def test_a_second_text_follows_the_first_like_its_next_piece() -> None:
    orders, one, two = await spoken_after(Listener(), dry=False)
    assert not any(order.is_first for order in orders)
    assert len(two[0].text.split()) > 2
    # The pause of the first one's end is kept, and nothing follows the second one.
    assert not one[-1].samples[-round(0.25 * SAMPLE_RATE) :].any()
    assert two[-1].samples[-round(0.01 * SAMPLE_RATE) :].any()


async def test_a_second_text_for_a_listener_who_ran_dry_is_a_first_one() -> None:
    orders, _, _ = await spoken_after(Listener(), dry=True)
    assert [order.is_first for order in orders][:2] == [True, False]


async def test_the_status_says_what_happened() -> None:
    engine = ScriptedEngine()
    speaker = await started(engine)
    await collect(speaker, TEXT)
    told = speaker.describe()
    assert isinstance(told["rtf"], dict)
    assert told["rtf"]["median"] == pytest.approx(0.37, abs=0.04)
    assert isinstance(told["pace"], dict)
    assert told["pace"]["fixed_s"] == pytest.approx(0.06, abs=0.01)
    assert speaker.backlog_s() == 0
    await speaker.close()

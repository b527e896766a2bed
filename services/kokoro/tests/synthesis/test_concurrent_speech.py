"""Concurrent speeches: disconnects, slow readers, rejected requests and failures."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing

import pytest

from hearth_kokoro.engines import SAMPLE_RATE, Samples, StopSignal, Styles
from hearth_kokoro.synthesis.playback import Playback, SegmentJoiner, trim
from hearth_kokoro.synthesis.segmentation import LONGEST
from hearth_kokoro.synthesis.synthesis_queue import InferenceResult, SynthesisRequest
from hearth_kokoro.synthesis.synthesizer import Segment, Synthesizer
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_serving.errors import ServiceError

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices

VOICE = ScriptedVoices().get("af_heart")
TEXT = "One sentence follows another, and each is as long as this one. " * 12


async def started(
    engine: ScriptedEngine, *, max_active: int = 32, phonemizer: ScriptedPhonemizer | None = None
) -> Synthesizer:
    synthesizer = Synthesizer(
        engine,
        ScriptedVoices(),
        phonemizer or ScriptedPhonemizer(),
        clock=engine.clock,
        max_active=max_active,
    )
    await synthesizer.start()
    engine.requested.clear()
    return synthesizer


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        # Another thread makes it true, and knows nothing of this event loop.
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def collect(synthesizer: Synthesizer, text: str) -> list[Segment]:
    return [
        segment async for segment in synthesizer.speak(TextBuffer.of(text, "en-us"), VOICE, 1.0)
    ]


async def test_a_client_that_disconnects_stops_the_synthesis() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    engine.tick_s = 0.001
    async with aclosing(synthesizer.speak(TextBuffer.of(TEXT, "en-us"), VOICE, 1.0)) as segments:
        await anext(segments)
        await until(lambda: len(engine.requested) == 2)
        # Far longer than `until` waits: who is done then was stopped.
        engine.tick_s = 1.0
        await anext(segments)
        await until(lambda: len(engine.requested) == 3)
    await until(lambda: len(engine.stopped) == 1)
    assert synthesizer.active == 0
    await synthesizer.close()


async def test_a_task_that_is_cancelled_stops_the_work() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    engine.gate.clear()
    playback = asyncio.create_task(collect(synthesizer, TEXT))
    await until(lambda: len(engine.requested) == 1)
    playback.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playback
    await until(lambda: len(engine.stopped) == 1)
    assert synthesizer.active == 0
    await synthesizer.close()


async def test_a_cancelled_feed_ends_only_its_own_speech() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    engine.gate.clear()
    buffer = TextBuffer.of(TEXT, "en-us")
    segments = synthesizer.speak(buffer, VOICE, 1.0)
    waiting = asyncio.create_task(anext(segments, None))
    await until(lambda: len(engine.requested) == 1)
    buffer.cancel()
    assert await asyncio.wait_for(waiting, 5) is None
    await until(lambda: len(engine.stopped) == 1)
    engine.gate.set()
    assert "".join(segment.text for segment in await collect(synthesizer, TEXT)) == TEXT
    await synthesizer.close()


async def test_a_slow_reader_gets_one_segment_ahead_and_delays_nobody() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    async with aclosing(synthesizer.speak(TextBuffer.of(TEXT, "en-us"), VOICE, 1.0)) as slow:
        await anext(slow)
        await until(lambda: len(engine.requested) == 2)
        await asyncio.sleep(0.05)
        assert len(engine.requested) == 2
        other = "Quite another text, which is read at once. "
        assert "".join(segment.text for segment in await collect(synthesizer, other)) == other
        rest = [segment.text async for segment in slow]
    assert TEXT.endswith("".join(rest))
    await synthesizer.close()


async def test_four_requests_at_once_all_start_before_any_continues() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    engine.gate.clear()
    names = ("Red", "Blue", "Green", "Brown")
    texts = [f"{name} is the first word, and more words come after it. " * 3 for name in names]
    listeners = [asyncio.create_task(collect(synthesizer, text)) for text in texts]
    await until(lambda: synthesizer.waiting == 3)
    engine.gate.set()
    got = await asyncio.gather(*listeners)
    assert [["".join(segment.text for segment in segments)][0] for segments in got] == texts
    assert {requested.split()[0] for requested in engine.requested[:4]} == set(names)
    await synthesizer.close()


async def test_one_request_too_many_is_rejected_with_a_realistic_wait() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine, max_active=2)
    engine.gate.clear()
    listeners = [asyncio.create_task(collect(synthesizer, TEXT)) for _ in range(2)]
    await until(lambda: synthesizer.waiting == 1)
    with pytest.raises(ServiceError, match="2 requests") as refused:
        synthesizer.speak(TextBuffer.of("One more.", "en-us"), VOICE, 1.0)
    assert refused.value.status == 429
    # 756 characters each at 0.028 s: two of them take 42 s.
    assert 35 <= (refused.value.retry_after_s or 0) <= 50
    engine.gate.set()
    await asyncio.gather(*listeners)
    assert await collect(synthesizer, "One more.")
    await synthesizer.close()


@pytest.mark.parametrize("run", ["1234567890" * 200, "abcdefghij" * 200, "1/2" * 600])
async def test_text_without_a_break_delays_a_neighbour_by_one_short_segment(run: str) -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    engine.gate.clear()
    endless = asyncio.create_task(collect(synthesizer, run))
    await until(lambda: len(engine.requested) == 1)
    neighbour = synthesizer.speak(TextBuffer.of("Good morning.", "en-us"), VOICE, 1.0)
    first = asyncio.create_task(anext(neighbour))
    await until(lambda: synthesizer.waiting == 1)
    engine.gate.set()
    await first
    # The running inference, its own one, and no other.
    assert len(engine.requested[0]) <= 50
    assert engine.requested[1] == "Good morning."
    await neighbour.aclose()
    assert "".join(segment.text for segment in await endless) == run
    assert max(map(len, engine.requested)) <= LONGEST
    await synthesizer.close()


async def test_sixty_four_requests_at_once_are_spoken_or_rejected() -> None:
    engine = ScriptedEngine(sound_s=0.01)
    synthesizer = await started(engine)
    got = await asyncio.gather(
        *[collect(synthesizer, f"Number {n} speaks, for a while.") for n in range(64)],
        return_exceptions=True,
    )
    refused = [each for each in got if isinstance(each, ServiceError)]
    assert all(error.status == 429 for error in refused)
    assert len(got) - len(refused) >= 32
    assert synthesizer.active == 0
    await synthesizer.close()


class Broken(ScriptedEngine):
    """Fails at one word."""

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        if "broken" in phonemes:
            raise RuntimeError("no such node")
        return super().infer(phonemes, voice, speed, stop)


async def test_an_engine_failure_is_one_line_and_affects_one_request() -> None:
    synthesizer = await started(Broken())
    with pytest.raises(ServiceError, match="no such node") as failed:
        await collect(synthesizer, "This is broken.")
    assert failed.value.status == 500
    assert await collect(synthesizer, "This is not.")
    await synthesizer.close()


async def test_phonemes_are_computed_once_and_never_on_the_event_loop() -> None:
    engine, phonemizer = ScriptedEngine(), ScriptedPhonemizer()
    synthesizer = await started(engine, phonemizer=phonemizer)
    await collect(synthesizer, TEXT)
    calls = phonemizer.calls
    await collect(synthesizer, TEXT)
    assert phonemizer.calls == calls
    assert threading.main_thread().name not in phonemizer.threads
    await synthesizer.close()


async def test_playback_that_waits_for_text_gets_a_first_segment() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    buffer = TextBuffer("en-us")
    segments = synthesizer.speak(buffer, VOICE, 1.0)
    buffer.write("Well, it")
    assert (await anext(segments)).text == "Well, "
    await asyncio.sleep(0.01)
    engine.clock.advance(60)
    buffer.write(" is a sentence that came very late to be spoken at once. ")
    buffer.close()
    # Later pieces without any lead are single words; a first one has two at least.
    assert 2 <= len((await anext(segments)).text.split()) <= 4
    await segments.aclose()
    await synthesizer.close()


async def test_a_text_that_waits_for_its_client_is_not_counted() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine, max_active=1)
    buffer = TextBuffer("en-us")
    playback = asyncio.create_task(anext(synthesizer.speak(buffer, VOICE, 1.0)))
    await until(lambda: synthesizer.active == 1)
    assert await collect(synthesizer, "Another speaks meanwhile.")
    engine.gate.clear()
    engine.requested.clear()
    buffer.write("Now there is something to say, and")
    await until(lambda: bool(engine.requested))
    with pytest.raises(ServiceError, match="1 requests") as refused:
        await collect(synthesizer, "One more.")
    assert refused.value.status == 429
    engine.gate.set()
    assert await playback
    await synthesizer.close()


async def test_the_event_loop_never_processes_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[str]()

    def seen(act: Callable[..., Samples]) -> Callable[..., Samples]:
        def noted(*args: object) -> Samples:
            threads.add(threading.current_thread().name)
            return act(*args)

        return noted

    monkeypatch.setattr(SegmentJoiner, "join", seen(SegmentJoiner.join))
    monkeypatch.setattr("hearth_kokoro.synthesis.session.trim", seen(trim))
    synthesizer = await started(ScriptedEngine())
    await collect(synthesizer, TEXT)
    assert len(threads) == 1
    assert threading.main_thread().name not in threads
    await synthesizer.close()


class Orders(list[SynthesisRequest]):
    """Every call of a synthesizer's engine."""

    def __init__(self, synthesizer: Synthesizer) -> None:
        queue = synthesizer._context.queue
        run = queue.run

        async def noted(request: SynthesisRequest) -> InferenceResult:
            self.append(request)
            return await run(request)

        queue.run = noted  # type: ignore[method-assign]


async def spoken_after(
    playback: Playback, *, dry: bool
) -> tuple[Orders, list[Segment], list[Segment]]:
    """Speak two texts to one client, which may have played all of the first one."""
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    requests = Orders(synthesizer)
    first = TextBuffer("en-us")
    first.write("A first sentence is said.")
    first.close(continues=True)
    one = [segment async for segment in synthesizer.speak(first, VOICE, 1.0, playback)]
    engine.clock.advance(60 if dry else 0)
    requests.clear()
    second = TextBuffer.of("And then there comes a second one of many words.", "en-us")
    two = [segment async for segment in synthesizer.speak(second, VOICE, 1.0, playback)]
    await synthesizer.close()
    return requests, one, two


async def test_a_second_text_follows_the_first_like_its_next_segment() -> None:
    requests, one, two = await spoken_after(Playback(), dry=False)
    assert not any(request.is_first for request in requests)
    assert len(two[0].text.split()) > 2
    # The pause of the first one's end is kept, and nothing follows the second one.
    assert not one[-1].samples[-round(0.25 * SAMPLE_RATE) :].any()
    assert two[-1].samples[-round(0.01 * SAMPLE_RATE) :].any()


async def test_a_second_text_after_playback_ended_has_a_first_segment() -> None:
    requests, _, _ = await spoken_after(Playback(), dry=True)
    assert [request.is_first for request in requests][:2] == [True, False]


async def test_the_status_reports_rtf_and_rates() -> None:
    engine = ScriptedEngine()
    synthesizer = await started(engine)
    await collect(synthesizer, TEXT)
    status = synthesizer.describe()
    assert isinstance(status["rtf"], dict)
    assert status["rtf"]["median"] == pytest.approx(0.37, abs=0.04)
    assert isinstance(status["pace"], dict)
    assert status["pace"]["fixed_s"] == pytest.approx(0.06, abs=0.01)
    assert synthesizer.backlog_s() == 0
    await synthesizer.close()

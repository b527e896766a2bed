"""The order of requests, their results and errors, and their cancellation."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from threading import Event

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognition import SAMPLE_RATE, Options, RecognitionCancelled, Samples
from hearth_whisper.recognition.model import LoadedModel
from hearth_whisper.recognition.queues import FinalRequest, Speaker
from hearth_whisper.recognition.scheduler import Scheduler, SchedulerLimits

from ..scripted import ScriptedRecogniser

EN = Options("en", vad=False)


def audio(seconds: float, level: float = 0.5) -> Samples:
    return np.full(round(seconds * SAMPLE_RATE), level, np.float32)


@asynccontextmanager
async def running(
    model: ScriptedRecogniser,
    draft: ScriptedRecogniser | None = None,
    limits: SchedulerLimits | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(lambda: LoadedModel(model, draft, "it is scripted"), limits, clock)
    await scheduler.start()
    try:
        async with asyncio.timeout(30):  # a deadlock fails instead of hanging
            yield scheduler
    finally:
        for one in (model, draft):
            if one:
                one.gate.set()
        await scheduler.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition changes in threads
            await asyncio.sleep(0.001)


async def test_a_file_gives_segments_and_its_language() -> None:
    async with running(ScriptedRecogniser(language="de")) as scheduler:
        text = await scheduler.transcribe_file(audio(70), Options(word_timestamps=True))
        assert (text.language, text.language_probability) == ("de", 1.0)
        found = [segment async for segment in text]
        assert [(s.start_s, s.end_s) for s in found] == [(0, 30), (30, 60), (60, 70)]
        assert found[1].words[0].start_s == 30
        assert text.audio_s == 70


async def test_a_file_of_many_chunks_keeps_its_times_language_and_context() -> None:
    model = ScriptedRecogniser(language="de")
    blocks = (audio(100) for _ in range(4))
    async with running(model) as scheduler:
        found = [s async for s in await scheduler.transcribe_file(blocks, Options(prompt="Hearth"))]
    assert found[0].start_s == 0
    assert found[-1].end_s == 400
    assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(found))
    (_, first), (_, second) = model.calls
    assert (first.language, first.prompt) == (None, "Hearth")
    assert second.language == "de"
    before = "".join(segment.text for segment in found if segment.start_s < 290)
    assert second.prompt[-100:] == before[-100:]


async def test_silence_is_an_empty_text() -> None:
    async with running(ScriptedRecogniser()) as scheduler:
        text = await scheduler.transcribe_file(audio(5, 0.0), Options())
        assert [s async for s in text] == []
        assert (text.language, text.language_probability, text.audio_s) == (None, 0.0, 5)
        empty = await scheduler.transcribe_file(audio(0), Options())
        assert [s async for s in empty] == []
        assert empty.audio_s == 0


async def test_a_final_comes_before_the_next_step_of_a_file() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    async with running(model) as scheduler:
        file = asyncio.create_task(scheduler.transcribe_file(audio(90), EN))
        await until(lambda: model.steps == ["encode"])
        final = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
        await until(lambda: scheduler.describe()["finals"]["waiting"] == 1)
        await until(lambda: scheduler.steps_waiting == 1)
        model.gate.set()
        assert (await final).text == "one two"
        started = [seconds for seconds, _ in model.calls]
        assert started == [90, 1]
        # The file's encoding, both steps of the final, then the rest of the file.
        assert model.steps[:3] == ["encode", "encode", "decode"]
        assert len([s async for s in await file]) == 3


async def test_finals_are_served_in_order() -> None:
    model = ScriptedRecogniser()
    async with running(model) as scheduler:
        done = await asyncio.gather(
            *(scheduler.transcribe_final(audio(n), EN, Event()) for n in (1, 3, 2))
        )
    assert [seconds for seconds, _ in model.calls] == [1, 3, 2]
    assert [one.audio_s for one in done] == [1, 3, 2]


async def serving_order(
    scheduler: Scheduler, model: ScriptedRecogniser, requests: list[FinalRequest]
) -> list[float]:
    """Return the order in which finals of 1, 2, ... s are served after a running one."""
    model.gate.clear()
    first = asyncio.create_task(scheduler.transcribe_final(audio(9), EN, Event()))
    await until(lambda: model.steps == ["encode"])
    waiting = [
        asyncio.create_task(scheduler.transcribe_final(audio(n), EN, Event(), request))
        for n, request in enumerate(requests, 1)
    ]
    await until(lambda: scheduler.describe()["finals"]["waiting"] == len(requests) + 1)
    requests[-1].is_due = True
    model.gate.set()
    await asyncio.gather(first, *waiting)
    return [seconds for seconds, _ in model.calls[1:]]


async def test_due_finals_come_before_speculative_ones() -> None:
    model, early = ScriptedRecogniser(), FinalRequest(is_due=False)
    async with running(model) as scheduler:
        requests = [early, FinalRequest(), FinalRequest(), FinalRequest(is_due=False)]
        # The last one becomes due while it waits.
        assert await serving_order(scheduler, model, requests) == [2, 3, 4, 1]


async def test_finals_alternate_among_speakers() -> None:
    model, hasty, calm = ScriptedRecogniser(), Speaker(), Speaker()
    async with running(model) as scheduler:
        requests = [
            *(FinalRequest(hasty) for _ in range(3)),
            FinalRequest(calm),
            FinalRequest(calm),
        ]
        assert await serving_order(scheduler, model, requests) == [1, 4, 2, 5, 3]


async def test_cancelled_finals_do_not_delay_others() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    async with running(model) as scheduler:
        first = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
        await until(lambda: model.steps == ["encode"])
        second = asyncio.create_task(scheduler.transcribe_final(audio(2), EN, Event()))
        third = asyncio.create_task(
            scheduler.transcribe_final(audio(3), EN, Event(), FinalRequest(is_due=False))
        )
        await until(lambda: scheduler.describe()["finals"]["waiting"] == 3)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        # The first is still in its step: a due one comes before an earlier one.
        fourth = asyncio.create_task(scheduler.transcribe_final(audio(4), EN, Event()))
        await until(lambda: scheduler.describe()["finals"]["waiting"] == 2)
        model.gate.set()
        await asyncio.gather(third, fourth)
    assert [seconds for seconds, _ in model.calls] == [1, 4, 3]


async def test_a_cancelled_final_does_not_start() -> None:
    model, cancelled = ScriptedRecogniser(), Event()
    model.gate.clear()
    async with running(model) as scheduler:
        first = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
        await until(lambda: model.steps == ["encode"])
        second = asyncio.create_task(scheduler.transcribe_final(audio(2), EN, cancelled))
        await asyncio.sleep(0)
        cancelled.set()
        model.gate.set()
        await first
        with pytest.raises(RecognitionCancelled):
            await second
    assert [seconds for seconds, _ in model.calls] == [1]


async def test_a_running_final_is_cancelled_between_its_steps() -> None:
    model, cancelled = ScriptedRecogniser(), Event()
    model.gate.clear()
    async with running(model) as scheduler:
        final = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, cancelled))
        await until(lambda: model.steps == ["encode"])
        cancelled.set()
        model.gate.set()
        with pytest.raises(RecognitionCancelled):
            await final
    assert model.steps == ["encode"]


async def test_cancelling_the_task_cancels_its_final() -> None:
    model, cancelled = ScriptedRecogniser(), Event()
    model.gate.clear()
    async with running(model) as scheduler:
        final = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, cancelled))
        await until(lambda: model.steps == ["encode"])
        final.cancel()
        with pytest.raises(asyncio.CancelledError):
            await final
        assert cancelled.is_set()


async def test_closing_a_file_cancels_it_before_its_next_step() -> None:
    model, closed = ScriptedRecogniser(), False

    def blocks() -> Iterator[Samples]:
        nonlocal closed
        try:
            while True:
                yield audio(60)
        finally:
            closed = True

    async with running(model) as scheduler:
        text = await scheduler.transcribe_file(blocks(), EN)
        async for _ in text:
            await text.aclose()
            break
        await until(lambda: scheduler.describe()["files"]["active"] == 0)
    assert closed


async def test_errors_of_the_audio_source_reach_the_caller() -> None:
    def corrupt() -> Iterator[Samples]:
        yield audio(1)
        raise ServiceError("the file is corrupt")

    async with running(ScriptedRecogniser()) as scheduler:
        with pytest.raises(ServiceError, match="corrupt"):
            await scheduler.transcribe_file(corrupt(), EN)
        assert (await scheduler.transcribe_final(audio(1), EN, Event())).text == "one two"


async def test_too_many_files_are_rejected_with_retry_after() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    async with running(model, limits=SchedulerLimits(files=1, waiting_files=1)) as scheduler:
        first = asyncio.create_task(scheduler.transcribe_file(audio(1), EN))
        await until(lambda: scheduler.describe()["files"]["active"] == 1)
        second = asyncio.create_task(scheduler.transcribe_file(audio(1), EN))
        await until(lambda: scheduler.describe()["files"]["waiting"] == 1)
        with pytest.raises(ServiceError, match="too many files") as refused:
            await scheduler.transcribe_file(audio(1), EN)
        assert (refused.value.status, refused.value.retry_after_s) == (429, 5)
        model.gate.set()
        await asyncio.gather(first, second)


@pytest.mark.parametrize("kind", ["file", "final"])
async def test_an_unsupported_language_is_rejected(kind: str) -> None:
    options = Options("klingon")
    async with running(ScriptedRecogniser(multilingual=False, languages=("en",))) as scheduler:
        ask = (
            scheduler.transcribe_file(audio(1), options)
            if kind == "file"
            else scheduler.transcribe_final(audio(1), options, Event())
        )
        with pytest.raises(
            ServiceError, match=r"scripted does not support .*'klingon': .*English only"
        ):
            await ask


async def test_an_english_model_rejects_translations_before_and_after_its_load() -> None:
    model = ScriptedRecogniser(multilingual=False, languages=("en",))
    scheduler = Scheduler(lambda: LoadedModel(model, None, "scripted"))
    scheduler.check(Options(translate=True))  # not known yet
    with pytest.raises(ServiceError, match="scripted supports English only") as refused:
        await scheduler.transcribe_file(audio(1), Options(translate=True))
    assert refused.value.code == "not_multilingual"
    for options in (Options(translate=True), Options("de")):
        with pytest.raises(ServiceError, match="English only"):
            scheduler.check(options)
    scheduler.check(EN)
    await scheduler.close()


async def test_closing_ends_all_requests_with_one_line() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    scheduler = Scheduler(lambda: LoadedModel(model, None, "scripted"))
    await scheduler.start()
    file = asyncio.create_task(scheduler.transcribe_file(audio(90), EN))
    await until(lambda: model.steps == ["encode"])
    final = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
    await until(lambda: scheduler.describe()["finals"]["waiting"] == 1)
    closing = asyncio.create_task(scheduler.close())
    await asyncio.sleep(0.01)
    model.gate.set()
    await closing
    text = await file
    for _ in range(2):
        with pytest.raises(ServiceError, match="stopped"):
            [segment async for segment in text]
    with pytest.raises(ServiceError, match="stopping"):
        await final
    with pytest.raises(ServiceError, match="stopping") as refused:
        await scheduler.transcribe_final(audio(1), EN, Event())
    assert refused.value.status == 503

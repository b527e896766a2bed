"""Who gets the model when, what each is told, and that nothing stays behind."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Stop, Stopped
from hearth_whisper.recognising.finals import Claim, Talker
from hearth_whisper.recognising.model import Loaded
from hearth_whisper.recognising.work import Bounds, Work

from ..scripted import ScriptedRecogniser

EN = Options("en", vad=False)


def sound(seconds: float, level: float = 0.5) -> Samples:
    return np.full(round(seconds * SAMPLE_RATE), level, np.float32)


@asynccontextmanager
async def working(
    model: ScriptedRecogniser,
    draft: ScriptedRecogniser | None = None,
    bounds: Bounds | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[Work]:
    work = Work(lambda: Loaded(model, draft, "it is scripted"), bounds, clock)
    await work.start()
    try:
        async with asyncio.timeout(30):  # what waits for ever is a failure, not a hang
            yield work
    finally:
        for one in (model, draft):
            if one:
                one.gate.set()
        await work.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - what it waits for happens in threads
            await asyncio.sleep(0.001)


async def test_a_file_comes_in_segments_with_its_language_and_cost() -> None:
    async with working(ScriptedRecogniser(language="de")) as work:
        text = await work.file(sound(70), Options(words=True))
        assert (text.language, text.language_probability) == ("de", 1.0)
        found = [segment async for segment in text]
        assert [(s.start_s, s.end_s) for s in found] == [(0, 30), (30, 60), (60, 70)]
        assert found[1].words[0].start_s == 30
        assert text.audio_s == 70


async def test_a_file_of_many_pieces_keeps_its_times_its_language_and_its_thread() -> None:
    model = ScriptedRecogniser(language="de")
    blocks = (sound(100) for _ in range(4))
    async with working(model) as work:
        found = [s async for s in await work.file(blocks, Options(prompt="Hearth"))]
    assert found[0].start_s == 0
    assert found[-1].end_s == 400
    assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(found))
    (_, first), (_, second) = model.asked
    assert (first.language, first.prompt) == (None, "Hearth")
    assert second.language == "de"
    before = "".join(segment.text for segment in found if segment.start_s < 290)
    assert second.prompt[-100:] == before[-100:]


async def test_silence_is_an_empty_text() -> None:
    async with working(ScriptedRecogniser()) as work:
        text = await work.file(sound(5, 0.0), Options())
        assert [s async for s in text] == []
        assert (text.language, text.language_probability, text.audio_s) == (None, 0.0, 5)
        empty = await work.file(sound(0), Options())
        assert [s async for s in empty] == []
        assert empty.audio_s == 0


async def test_a_final_comes_before_the_next_step_of_a_file() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    async with working(model) as work:
        file = asyncio.create_task(work.file(sound(90), EN))
        await until(lambda: model.steps == ["encode"])
        final = asyncio.create_task(work.final(sound(1), EN, Stop()))
        await until(lambda: work.describe()["finals"]["waiting"] == 1)
        await until(lambda: work.turns_waiting == 1)
        model.gate.set()
        assert (await final).text == "one two"
        begun = [seconds for seconds, _ in model.asked]
        assert begun == [90, 1]
        # Encoded by the file; both steps of the final; then the file goes on.
        assert model.steps[:3] == ["encode", "encode", "decode"]
        assert len([s async for s in await file]) == 3


async def test_finals_are_served_as_they_came() -> None:
    model = ScriptedRecogniser()
    async with working(model) as work:
        done = await asyncio.gather(*(work.final(sound(n), EN, Stop()) for n in (1, 3, 2)))
    assert [seconds for seconds, _ in model.asked] == [1, 3, 2]
    assert [one.audio_s for one in done] == [1, 3, 2]


async def in_line(work: Work, model: ScriptedRecogniser, claims: list[Claim]) -> list[float]:
    """Return the order in which finals of 1, 2, ... s are served after one that is in the model."""
    model.gate.clear()
    first = asyncio.create_task(work.final(sound(9), EN, Stop()))
    await until(lambda: model.steps == ["encode"])
    waiting = [
        asyncio.create_task(work.final(sound(n), EN, Stop(), claim))
        for n, claim in enumerate(claims, 1)
    ]
    await until(lambda: work.describe()["finals"]["waiting"] == len(claims) + 1)
    claims[-1].due = True
    model.gate.set()
    await asyncio.gather(first, *waiting)
    return [seconds for seconds, _ in model.asked[1:]]


async def test_who_waits_comes_before_who_may_still_speak_on() -> None:
    model, early = ScriptedRecogniser(), Claim(due=False)
    async with working(model) as work:
        claims = [early, Claim(), Claim(), Claim(due=False)]
        # The last one becomes due while it waits.
        assert await in_line(work, model, claims) == [2, 3, 4, 1]


async def test_one_talker_of_many_texts_leaves_turns_to_the_others() -> None:
    model, hasty, calm = ScriptedRecogniser(), Talker(), Talker()
    async with working(model) as work:
        claims = [*(Claim(hasty) for _ in range(3)), Claim(calm), Claim(calm)]
        assert await in_line(work, model, claims) == [1, 4, 2, 5, 3]


async def test_who_leaves_the_line_and_who_leaves_the_model_hold_up_nobody() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    async with working(model) as work:
        first = asyncio.create_task(work.final(sound(1), EN, Stop()))
        await until(lambda: model.steps == ["encode"])
        second = asyncio.create_task(work.final(sound(2), EN, Stop()))
        third = asyncio.create_task(work.final(sound(3), EN, Stop(), Claim(due=False)))
        await until(lambda: work.describe()["finals"]["waiting"] == 3)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        # The first is still in its step: who is due now comes before who came earlier.
        fourth = asyncio.create_task(work.final(sound(4), EN, Stop()))
        await until(lambda: work.describe()["finals"]["waiting"] == 2)
        model.gate.set()
        await asyncio.gather(third, fourth)
    assert [seconds for seconds, _ in model.asked] == [1, 4, 3]


async def test_a_final_that_nobody_wants_any_more_is_not_begun() -> None:
    model, stop = ScriptedRecogniser(), Stop()
    model.gate.clear()
    async with working(model) as work:
        first = asyncio.create_task(work.final(sound(1), EN, Stop()))
        await until(lambda: model.steps == ["encode"])
        second = asyncio.create_task(work.final(sound(2), EN, stop))
        await asyncio.sleep(0)
        stop.set()
        model.gate.set()
        await first
        with pytest.raises(Stopped):
            await second
    assert [seconds for seconds, _ in model.asked] == [1]


async def test_a_final_that_was_begun_stops_between_its_steps() -> None:
    model, stop = ScriptedRecogniser(), Stop()
    model.gate.clear()
    async with working(model) as work:
        final = asyncio.create_task(work.final(sound(1), EN, stop))
        await until(lambda: model.steps == ["encode"])
        stop.set()
        model.gate.set()
        with pytest.raises(Stopped):
            await final
    assert model.steps == ["encode"]


async def test_leaving_a_final_stops_it() -> None:
    model, stop = ScriptedRecogniser(), Stop()
    model.gate.clear()
    async with working(model) as work:
        final = asyncio.create_task(work.final(sound(1), EN, stop))
        await until(lambda: model.steps == ["encode"])
        final.cancel()
        with pytest.raises(asyncio.CancelledError):
            await final
        assert stop.is_set()


async def test_leaving_a_file_stops_it_before_its_next_step() -> None:
    model, closed = ScriptedRecogniser(), False

    def blocks() -> Iterator[Samples]:
        nonlocal closed
        try:
            while True:
                yield sound(60)
        finally:
            closed = True

    async with working(model) as work:
        text = await work.file(blocks(), EN)
        async for _ in text:
            await text.aclose()
            break
        await until(lambda: work.describe()["files"]["active"] == 0)
    assert closed


async def test_what_reading_raises_reaches_whoever_asked() -> None:
    def torn() -> Iterator[Samples]:
        yield sound(1)
        raise ServiceError("the file is torn")

    async with working(ScriptedRecogniser()) as work:
        with pytest.raises(ServiceError, match="torn"):
            await work.file(torn(), EN)
        assert (await work.final(sound(1), EN, Stop())).text == "one two"


async def test_more_files_than_may_wait_are_told_when_to_ask_again() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    async with working(model, bounds=Bounds(files=1, waiting_files=1)) as work:
        first = asyncio.create_task(work.file(sound(1), EN))
        await until(lambda: work.describe()["files"]["active"] == 1)
        second = asyncio.create_task(work.file(sound(1), EN))
        await until(lambda: work.describe()["files"]["waiting"] == 1)
        with pytest.raises(ServiceError, match="too many files") as refused:
            await work.file(sound(1), EN)
        assert (refused.value.status, refused.value.retry_after_s) == (429, 5)
        model.gate.set()
        await asyncio.gather(first, second)


@pytest.mark.parametrize("kind", ["file", "final"])
async def test_a_language_that_it_does_not_know_is_refused(kind: str) -> None:
    options = Options("klingon")
    async with working(ScriptedRecogniser(multilingual=False, languages=("en",))) as work:
        ask = (
            work.file(sound(1), options)
            if kind == "file"
            else work.final(sound(1), options, Stop())
        )
        with pytest.raises(
            ServiceError, match=r"scripted does not support .*'klingon': .*English only"
        ):
            await ask


async def test_an_english_model_translates_nothing_whoever_comes_before_it_is_loaded() -> None:
    model = ScriptedRecogniser(multilingual=False, languages=("en",))
    work = Work(lambda: Loaded(model, None, "scripted"))
    work.check(Options(translate=True))  # nobody knows yet
    with pytest.raises(ServiceError, match="scripted supports English only") as refused:
        await work.file(sound(1), Options(translate=True))
    assert refused.value.code == "not_multilingual"
    for options in (Options(translate=True), Options("de")):
        with pytest.raises(ServiceError, match="English only"):
            work.check(options)
    work.check(EN)
    await work.close()


async def test_closing_ends_everybody_in_one_line() -> None:
    model = ScriptedRecogniser()
    model.gate.clear()
    work = Work(lambda: Loaded(model, None, "scripted"))
    await work.start()
    file = asyncio.create_task(work.file(sound(90), EN))
    await until(lambda: model.steps == ["encode"])
    final = asyncio.create_task(work.final(sound(1), EN, Stop()))
    await until(lambda: work.describe()["finals"]["waiting"] == 1)
    closing = asyncio.create_task(work.close())
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
        await work.final(sound(1), EN, Stop())
    assert refused.value.status == 503

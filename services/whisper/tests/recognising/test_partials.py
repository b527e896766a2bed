"""Partials take a share of the time, one at a time, and make way for finals."""

import asyncio

import pytest

from hearth_serving.errors import EngineError
from hearth_whisper.recognising import Options, Stop

from ..scripted import ScriptedRecogniser
from .test_work import EN, sound, until, working


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_draft_makes_them_quickly_and_without_times() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser(name="draft")
    async with working(model, draft) as work:
        await work.final(sound(1), EN, Stop())
        partial = await work.partial(sound(2), Options("en", words=True, prompt="Hearth"))
        assert partial is not None
        assert partial.text == "one two three four"
    ((_, options),) = draft.asked
    assert options == Options("en", "Hearth", 0.0, vad=False, quick=True)
    assert len(model.asked) == 1


async def test_there_is_one_at_a_time_and_nobody_waits() -> None:
    draft = ScriptedRecogniser()
    draft.gate.clear()
    async with working(ScriptedRecogniser(), draft) as work:
        await until(lambda: work.ready)
        first = asyncio.create_task(work.partial(sound(1), EN))
        await until(lambda: draft.steps == ["encode"])
        assert await work.partial(sound(1), EN) is None
        draft.gate.set()
        assert (await first) is not None
        assert work.describe()["partials"] | {"seconds": None} == {
            "made": 1,
            "refused": 1,
            "given_up": 0,
            "share": 0.5,
            "seconds": None,
        }


async def test_after_one_they_rest_so_long_that_they_take_their_share() -> None:
    clock, draft = Clock(), ScriptedRecogniser()
    draft.gate.clear()
    async with working(ScriptedRecogniser(), draft, clock=clock) as work:
        await until(lambda: work.ready)
        first = asyncio.create_task(work.partial(sound(1), EN))
        await until(lambda: draft.steps == ["encode"])
        clock.now = 2.0
        draft.gate.set()
        assert (await first) is not None
        for now, may in ((2.0, False), (3.9, False), (4.0, True)):
            clock.now = now
            assert ((await work.partial(sound(1), EN)) is not None) is may


async def test_a_final_does_not_wait_for_a_partial_which_is_given_up() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser()
    draft.gate.clear()
    async with working(model, draft) as work:
        await until(lambda: work.ready)
        partial = asyncio.create_task(work.partial(sound(1), EN))
        await until(lambda: draft.steps == ["encode"])
        # The draft is still in its step: neither the final nor whoever waits for it is held up.
        assert (await work.final(sound(1), EN, Stop())).text == "one two"
        assert await partial is None
        draft.gate.set()
        await until(lambda: not work.partials_running)
        assert draft.steps == ["encode"]


async def test_none_begins_while_a_final_waits() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser()
    model.gate.clear()
    async with working(model, draft) as work:
        await until(lambda: work.ready)
        final = asyncio.create_task(work.final(sound(1), EN, Stop()))
        await until(lambda: model.steps == ["encode"])
        assert await work.partial(sound(1), EN) is None
        assert draft.steps == []
        model.gate.set()
        await final


async def test_a_file_pauses_for_a_partial() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser()
    model.gate.clear()
    draft.gate.clear()
    async with working(model, draft) as work:
        await until(lambda: work.ready)
        file = asyncio.create_task(work.file(sound(1), EN))
        await until(lambda: model.steps == ["encode"])
        partial = asyncio.create_task(work.partial(sound(1), EN))
        await until(lambda: draft.steps == ["encode"])
        model.gate.set()
        await until(lambda: work.turns_waiting == 1)
        assert model.steps == ["encode"]
        draft.gate.set()
        assert await partial is not None
        await file


@pytest.mark.parametrize(
    ("language", "may"), [("en", True), (None, False), ("de", False)], ids=["en", "any", "de"]
)
async def test_an_english_draft_keeps_silent_where_another_language_may_be_spoken(
    language: str | None, may: bool
) -> None:
    draft = ScriptedRecogniser(multilingual=False, languages=("en",))
    async with working(ScriptedRecogniser(), draft) as work:
        await until(lambda: work.ready)
        partial = await work.partial(sound(1), Options(language))
        assert (partial is not None) is may


async def test_what_fails_is_said_once_until_one_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    draft = ScriptedRecogniser()
    broken = EngineError("the recognition failed: bad alloc", status=500)
    async with working(ScriptedRecogniser(), draft) as work:
        await until(lambda: work.ready)
        for error in (broken, broken, MemoryError("he said"), None, broken):
            draft.error = error
            partial = await work.partial(sound(1), EN)
            assert (partial is None) is (error is not None)
            await until(lambda: not work.partials_running)
    assert caplog.text.count("a partial result failed: the recognition failed") == 2
    assert "he said" not in caplog.text


async def test_without_a_draft_there_are_none() -> None:
    async with working(ScriptedRecogniser()) as work:
        await until(lambda: work.ready)
        assert await work.partial(sound(1), EN) is None

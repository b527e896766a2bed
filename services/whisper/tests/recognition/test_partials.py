"""Partial results take a share of the time, one at a time, and finals cancel them."""

import asyncio
from threading import Event

import pytest

from hearth_serving.errors import EngineError
from hearth_whisper.recognition import Options

from ..scripted import ScriptedRecogniser
from .test_scheduler import EN, audio, running, until


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_draft_decodes_greedily_without_timestamps() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser(name="draft")
    async with running(model, draft) as scheduler:
        await scheduler.transcribe_final(audio(1), EN, Event())
        partial = await scheduler.transcribe_partial(
            audio(2), Options("en", word_timestamps=True, prompt="Hearth")
        )
        assert partial is not None
        assert partial.text == "one two three four"
    ((_, options),) = draft.calls
    assert options == Options("en", "Hearth", 0.0, vad=False, greedy=True)
    assert len(model.calls) == 1


async def test_one_runs_at_a_time_and_further_ones_are_refused() -> None:
    draft = ScriptedRecogniser()
    draft.gate.clear()
    async with running(ScriptedRecogniser(), draft) as scheduler:
        await until(lambda: scheduler.ready)
        first = asyncio.create_task(scheduler.transcribe_partial(audio(1), EN))
        await until(lambda: draft.steps == ["encode"])
        assert await scheduler.transcribe_partial(audio(1), EN) is None
        draft.gate.set()
        assert (await first) is not None
        assert scheduler.describe()["partials"] | {"seconds": None} == {
            "made": 1,
            "refused": 1,
            "given_up": 0,
            "share": 0.5,
            "seconds": None,
        }


async def test_the_pause_after_one_keeps_their_share_of_the_time() -> None:
    clock, draft = Clock(), ScriptedRecogniser()
    draft.gate.clear()
    async with running(ScriptedRecogniser(), draft, clock=clock) as scheduler:
        await until(lambda: scheduler.ready)
        first = asyncio.create_task(scheduler.transcribe_partial(audio(1), EN))
        await until(lambda: draft.steps == ["encode"])
        clock.now = 2.0
        draft.gate.set()
        assert (await first) is not None
        for now, may in ((2.0, False), (3.9, False), (4.0, True)):
            clock.now = now
            assert ((await scheduler.transcribe_partial(audio(1), EN)) is not None) is may


async def test_a_final_cancels_a_partial_and_does_not_wait_for_it() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser()
    draft.gate.clear()
    async with running(model, draft) as scheduler:
        await until(lambda: scheduler.ready)
        partial = asyncio.create_task(scheduler.transcribe_partial(audio(1), EN))
        await until(lambda: draft.steps == ["encode"])
        # The draft is still in its step, which delays neither the final nor its caller.
        assert (await scheduler.transcribe_final(audio(1), EN, Event())).text == "one two"
        assert await partial is None
        draft.gate.set()
        await until(lambda: not scheduler.partials_running)
        assert draft.steps == ["encode"]


async def test_none_starts_while_a_final_waits() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser()
    model.gate.clear()
    async with running(model, draft) as scheduler:
        await until(lambda: scheduler.ready)
        final = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
        await until(lambda: model.steps == ["encode"])
        assert await scheduler.transcribe_partial(audio(1), EN) is None
        assert draft.steps == []
        model.gate.set()
        await final


async def test_a_file_pauses_for_a_partial() -> None:
    model, draft = ScriptedRecogniser(), ScriptedRecogniser()
    model.gate.clear()
    draft.gate.clear()
    async with running(model, draft) as scheduler:
        await until(lambda: scheduler.ready)
        file = asyncio.create_task(scheduler.transcribe_file(audio(1), EN))
        await until(lambda: model.steps == ["encode"])
        partial = asyncio.create_task(scheduler.transcribe_partial(audio(1), EN))
        await until(lambda: draft.steps == ["encode"])
        model.gate.set()
        await until(lambda: scheduler.steps_waiting == 1)
        assert model.steps == ["encode"]
        draft.gate.set()
        assert await partial is not None
        await file


@pytest.mark.parametrize(
    ("language", "may"), [("en", True), (None, False), ("de", False)], ids=["en", "any", "de"]
)
async def test_an_english_draft_is_not_used_for_other_languages(
    language: str | None, may: bool
) -> None:
    draft = ScriptedRecogniser(multilingual=False, languages=("en",))
    async with running(ScriptedRecogniser(), draft) as scheduler:
        await until(lambda: scheduler.ready)
        partial = await scheduler.transcribe_partial(audio(1), Options(language))
        assert (partial is not None) is may


async def test_a_failure_is_logged_once_until_one_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    draft = ScriptedRecogniser()
    broken = EngineError("the recognition failed: bad alloc", status=500)
    async with running(ScriptedRecogniser(), draft) as scheduler:
        await until(lambda: scheduler.ready)
        for error in (broken, broken, MemoryError("a secret"), None, broken):
            draft.error = error
            partial = await scheduler.transcribe_partial(audio(1), EN)
            assert (partial is None) is (error is not None)
            await until(lambda: not scheduler.partials_running)
    assert caplog.text.count("a partial result failed: the recognition failed") == 2
    assert "a secret" not in caplog.text


async def test_without_a_draft_there_are_none() -> None:
    async with running(ScriptedRecogniser()) as scheduler:
        await until(lambda: scheduler.ready)
        assert await scheduler.transcribe_partial(audio(1), EN) is None

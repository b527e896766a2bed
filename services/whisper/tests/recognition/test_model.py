"""Loaded once for all requests, freed when idle, and loaded again on demand."""

import asyncio
import threading
from collections.abc import Container
from threading import Event

import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognition.model import LoadedModel
from hearth_whisper.recognition.scheduler import Scheduler, SchedulerLimits

from ..scripted import ScriptedRecogniser
from .test_scheduler import EN, audio, until


class Maker:
    """Loads scripted models while its gate is open; the given loads fail."""

    def __init__(self, failures: Container[int] = ()) -> None:
        self.made, self._failures = 0, failures
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> LoadedModel:
        self.gate.wait()
        self.made += 1
        if self.made in self._failures:
            raise ServiceError("the model is corrupt; fetch it again", status=503)
        return LoadedModel(ScriptedRecogniser(), None, "it is scripted")


async def test_concurrent_requests_share_one_load() -> None:
    make = Maker()
    make.gate.clear()
    scheduler = Scheduler(make)
    await scheduler.start()
    finals = [
        asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event())) for _ in range(3)
    ]
    file = asyncio.create_task(scheduler.transcribe_file(audio(1), EN))
    await asyncio.sleep(0)
    assert not scheduler.ready
    assert scheduler.failure is None
    make.gate.set()
    assert [one.text for one in await asyncio.gather(*finals)] == ["one two"] * 3
    await file
    assert make.made == 1
    assert scheduler.ready
    await scheduler.close()


async def test_it_is_freed_when_idle_and_loaded_on_demand() -> None:
    make = Maker()
    scheduler = Scheduler(make, SchedulerLimits(unload_s=0.01))
    await scheduler.start()
    await until(lambda: scheduler.describe()["loads"] == 1)
    await until(lambda: not scheduler.describe()["loaded"])
    assert scheduler.ready
    assert scheduler.describe()["model"] == "scripted"
    assert (await scheduler.transcribe_final(audio(1), EN, Event())).text == "one two"
    assert make.made == 2
    await scheduler.close()


async def test_it_is_not_freed_while_it_is_used() -> None:
    model = ScriptedRecogniser()
    scheduler = Scheduler(
        lambda: LoadedModel(model, None, "it is scripted"), SchedulerLimits(unload_s=0.02)
    )
    await scheduler.transcribe_final(audio(1), EN, Event())
    model.gate.clear()
    final = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
    await until(lambda: len(model.steps) == 3)
    await asyncio.sleep(0.1)
    assert scheduler.describe()["loaded"]
    model.gate.set()
    await final
    assert scheduler.describe()["loads"] == 1
    await until(lambda: not scheduler.describe()["loaded"])
    await scheduler.close()


async def test_a_failed_load_is_reported_and_retried() -> None:
    scheduler = Scheduler(Maker(failures=[1]))
    with pytest.raises(ServiceError, match="corrupt") as caught:
        await scheduler.transcribe_file(audio(1), EN)
    assert caught.value.status == 503
    assert scheduler.failure == "the model is corrupt; fetch it again"
    assert not scheduler.ready
    assert (await scheduler.transcribe_final(audio(1), EN, Event())).text == "one two"
    assert scheduler.failure is None
    await scheduler.close()


async def test_a_failed_reload_is_retried_by_the_next_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    make = Maker(failures=[2, 3])
    scheduler = Scheduler(make, SchedulerLimits(unload_s=0.01))
    await scheduler.start()
    await until(lambda: scheduler.describe()["loads"] == 1 and not scheduler.describe()["loaded"])
    scheduler.preload()
    await until(lambda: make.made == 2 and scheduler.failure is not None)
    assert scheduler.ready
    # Partial results come too often to retry the load.
    for _ in range(5):
        assert await scheduler.transcribe_partial(audio(1), EN) is None
    await asyncio.sleep(0.05)
    assert make.made == 2
    with pytest.raises(ServiceError, match="corrupt"):
        await scheduler.transcribe_final(audio(1), EN, Event())
    assert scheduler.ready
    assert (await scheduler.transcribe_final(audio(1), EN, Event())).text == "one two"
    assert (scheduler.failure, make.made) == (None, 4)
    assert caplog.text.count("the next request retries: the model is corrupt") == 2
    await scheduler.close()


async def test_an_unexpected_error_is_reported() -> None:
    def make() -> LoadedModel:
        raise MemoryError("std::bad_alloc")

    scheduler = Scheduler(make)
    await scheduler.start()
    await until(lambda: scheduler.failure is not None)
    assert scheduler.failure == "the model cannot be loaded: std::bad_alloc"
    await scheduler.close()


async def test_a_cancelled_request_does_not_cancel_the_load() -> None:
    make = Maker()
    make.gate.clear()
    scheduler = Scheduler(make)
    leaving = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
    staying = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    make.gate.set()
    assert (await staying).text == "one two"
    await scheduler.close()


async def test_a_partial_result_starts_the_load_without_waiting() -> None:
    make = Maker()
    scheduler = Scheduler(make)
    assert await scheduler.transcribe_partial(audio(1), EN) is None
    await until(lambda: scheduler.ready)
    assert make.made == 1
    await scheduler.close()


async def test_closing_during_a_load_fails_the_waiting_requests() -> None:
    make = Maker()
    make.gate.clear()
    scheduler = Scheduler(make)
    waiting = asyncio.create_task(scheduler.transcribe_final(audio(1), EN, Event()))
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(scheduler.close())
    with pytest.raises(ServiceError, match="stopping"):
        await waiting
    make.gate.set()
    await closing


async def test_the_program_can_end_while_it_loads() -> None:
    make = Maker()
    make.gate.clear()
    scheduler = Scheduler(make)
    await scheduler.start()
    await until(lambda: any(one.name == "load" for one in threading.enumerate()))
    assert all(one.daemon for one in threading.enumerate() if one.name == "load")
    await scheduler.close()
    make.gate.set()

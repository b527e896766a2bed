"""Loaded once for all, freed when nobody needs it, loaded again when somebody does."""

import asyncio
import threading
from collections.abc import Container

import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import Stop
from hearth_whisper.recognising.model import Loaded
from hearth_whisper.recognising.work import Bounds, Work

from ..scripted import ScriptedRecogniser
from .test_work import EN, sound, until


class Maker:
    """Makes scripted models, when its gate is open, but not at these tries."""

    def __init__(self, failures: Container[int] = ()) -> None:
        self.made, self._failures = 0, failures
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> Loaded:
        self.gate.wait()
        self.made += 1
        if self.made in self._failures:
            raise ServiceError("the model is torn; fetch it again", status=503)
        return Loaded(ScriptedRecogniser(), None, "it is scripted")


async def test_all_who_wait_for_it_wait_for_one_loading() -> None:
    make = Maker()
    make.gate.clear()
    work = Work(make)
    await work.start()
    asked = [asyncio.create_task(work.final(sound(1), EN, Stop())) for _ in range(3)]
    file = asyncio.create_task(work.file(sound(1), EN))
    await asyncio.sleep(0)
    assert not work.ready
    assert work.failure is None
    make.gate.set()
    assert [one.text for one in await asyncio.gather(*asked)] == ["one two"] * 3
    await file
    assert make.made == 1
    assert work.ready
    await work.close()


async def test_it_is_freed_when_idle_and_loaded_on_demand() -> None:
    make = Maker()
    work = Work(make, Bounds(unload_s=0.01))
    await work.start()
    await until(lambda: work.describe()["loads"] == 1)
    await until(lambda: not work.describe()["loaded"])
    assert work.ready
    assert work.describe()["model"] == "scripted"
    assert (await work.final(sound(1), EN, Stop())).text == "one two"
    assert make.made == 2
    await work.close()


async def test_it_is_not_freed_while_it_is_used() -> None:
    model = ScriptedRecogniser()
    work = Work(lambda: Loaded(model, None, "it is scripted"), Bounds(unload_s=0.02))
    await work.final(sound(1), EN, Stop())
    model.gate.clear()
    final = asyncio.create_task(work.final(sound(1), EN, Stop()))
    await until(lambda: len(model.steps) == 3)
    await asyncio.sleep(0.1)
    assert work.describe()["loaded"]
    model.gate.set()
    await final
    assert work.describe()["loads"] == 1
    await until(lambda: not work.describe()["loaded"])
    await work.close()


async def test_a_model_that_does_not_load_is_said_and_tried_again() -> None:
    work = Work(Maker(failures=[1]))
    with pytest.raises(ServiceError, match="torn") as said:
        await work.file(sound(1), EN)
    assert said.value.status == 503
    assert work.failure == "the model is torn; fetch it again"
    assert not work.ready
    assert (await work.final(sound(1), EN, Stop())).text == "one two"
    assert work.failure is None
    await work.close()


async def test_a_reload_that_fails_is_tried_again_for_whoever_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    make = Maker(failures=[2, 3])
    work = Work(make, Bounds(unload_s=0.01))
    await work.start()
    await until(lambda: work.describe()["loads"] == 1 and not work.describe()["loaded"])
    work.wake()
    await until(lambda: make.made == 2 and work.failure is not None)
    assert work.ready
    # What is asked for all the time, and may be missed, is no reason to try.
    for _ in range(5):
        assert await work.partial(sound(1), EN) is None
    await asyncio.sleep(0.05)
    assert make.made == 2
    with pytest.raises(ServiceError, match="torn"):
        await work.final(sound(1), EN, Stop())
    assert work.ready
    assert (await work.final(sound(1), EN, Stop())).text == "one two"
    assert (work.failure, make.made) == (None, 4)
    assert caplog.text.count("the next request retries: the model is torn") == 2
    await work.close()


async def test_what_nobody_foresaw_is_said_as_well() -> None:
    def make() -> Loaded:
        raise MemoryError("std::bad_alloc")

    work = Work(make)
    await work.start()
    await until(lambda: work.failure is not None)
    assert work.failure == "the model cannot be loaded: std::bad_alloc"
    await work.close()


async def test_who_leaves_while_it_loads_does_not_take_it_from_the_others() -> None:
    make = Maker()
    make.gate.clear()
    work = Work(make)
    leaving = asyncio.create_task(work.final(sound(1), EN, Stop()))
    staying = asyncio.create_task(work.final(sound(1), EN, Stop()))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    make.gate.set()
    assert (await staying).text == "one two"
    await work.close()


async def test_a_partial_loads_it_and_waits_not() -> None:
    make = Maker()
    work = Work(make)
    assert await work.partial(sound(1), EN) is None
    await until(lambda: work.ready)
    assert make.made == 1
    await work.close()


async def test_closing_while_it_loads_refuses_who_waits() -> None:
    make = Maker()
    make.gate.clear()
    work = Work(make)
    waiting = asyncio.create_task(work.final(sound(1), EN, Stop()))
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(work.close())
    with pytest.raises(ServiceError, match="stopping"):
        await waiting
    make.gate.set()
    await closing


async def test_the_program_can_end_while_it_loads() -> None:
    make = Maker()
    make.gate.clear()
    work = Work(make)
    await work.start()
    await until(lambda: any(one.name == "load" for one in threading.enumerate()))
    assert all(one.daemon for one in threading.enumerate() if one.name == "load")
    await work.close()
    make.gate.set()

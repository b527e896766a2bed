"""One thread works; first segments go first, and cancelled work is stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from hearth_kokoro.synthesis.synthesis_queue import (
    InferenceResult,
    SynthesisQueue,
    SynthesisRequest,
)
from hearth_serving.errors import ServiceError

from ..scripted import STYLES, ScriptedEngine


def request(
    phonemes: str, *, is_first: bool = False, deadline: float = 1e6, cost_s: float = 1.0
) -> SynthesisRequest:
    return SynthesisRequest(phonemes, STYLES, 1.0, is_first, deadline, cost_s)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def queue(engine: ScriptedEngine) -> AsyncIterator[SynthesisQueue]:
    queue = SynthesisQueue(engine, engine.clock)
    queue.start()
    yield queue
    engine.gate.set()
    queue.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        # Another thread makes it true, and knows nothing of this event loop.
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def begun(
    engine: ScriptedEngine, queue: SynthesisQueue, made: SynthesisRequest
) -> asyncio.Task[InferenceResult]:
    """Start one job that waits at the closed gate."""
    engine.gate.clear()
    count = len(engine.requested)
    task = asyncio.create_task(queue.run(made))
    await until(lambda: len(engine.requested) > count)
    return task


async def test_first_segments_go_first_then_the_earliest_deadline(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    running = await begun(engine, queue, request("running", is_first=True))
    names = [("late", False, 9.0), ("soon", False, 3.0), ("first", True, 5.0)]
    tasks = [
        asyncio.create_task(queue.run(request(name, is_first=is_first, deadline=deadline)))
        for name, is_first, deadline in names
    ]
    await until(lambda: queue.waiting == 3)
    engine.gate.set()
    await asyncio.gather(running, *tasks)
    assert engine.requested == ["running", "first", "soon", "late"]


async def test_a_later_segment_with_time_left_is_preempted_and_repeated(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    running = await begun(engine, queue, request("later", deadline=100.0))
    first = asyncio.create_task(queue.run(request("first", is_first=True)))
    await until(lambda: engine.stopped == ["later"])
    engine.gate.set()
    made = await asyncio.gather(first, running)
    assert engine.requested == ["later", "first", "later"]
    assert all(one.samples.size for one in made)
    assert queue.preempted == 1


@pytest.mark.parametrize("deadline", [0.5, 2.0])
async def test_a_later_segment_that_is_needed_soon_is_not_preempted(
    engine: ScriptedEngine, queue: SynthesisQueue, deadline: float
) -> None:
    running = await begun(engine, queue, request("later", deadline=deadline))
    first = asyncio.create_task(queue.run(request("first", is_first=True)))
    await until(lambda: queue.waiting == 1)
    engine.gate.set()
    await asyncio.gather(first, running)
    assert engine.requested == ["later", "first"]


async def test_a_segment_is_preempted_a_limited_number_of_times(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    running = await begun(engine, queue, request("later", deadline=1e6))
    for times in range(1, 4):
        first = asyncio.create_task(queue.run(request("first", is_first=True)))
        await until(lambda: engine.requested[-1] == "first")
        first.cancel()
        await until(lambda: engine.requested[-1] == "later")
        assert queue.preempted == times
    first = asyncio.create_task(queue.run(request("first", is_first=True)))
    await until(lambda: queue.waiting == 1)
    engine.gate.set()
    await asyncio.gather(running, first)
    assert engine.requested[-2:] == ["later", "first"]
    assert queue.preempted == 3


async def test_a_flood_of_first_segments_does_not_starve_late_ones(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    running = await begun(engine, queue, request("running", is_first=True))
    laters = [queue.run(request(f"dry {n}", deadline=n * 0.1, cost_s=0.1)) for n in range(3)]
    flood = [
        queue.run(request(f"first {n}", is_first=True, deadline=0.0, cost_s=0.1)) for n in range(40)
    ]
    idle = queue.run(request("has time", deadline=1e6))
    tasks = [asyncio.create_task(each) for each in (*laters, *flood, idle)]
    await until(lambda: queue.waiting == 44)
    engine.gate.set()
    await asyncio.gather(running, *tasks)
    at = [engine.requested.index(f"dry {n}") for n in range(3)]
    assert at == [4, 9, 14]
    # A listener with sound left waits for all of them.
    assert engine.requested[-1] == "has time"


async def test_a_cancelled_request_stops(engine: ScriptedEngine, queue: SynthesisQueue) -> None:
    running = await begun(engine, queue, request("long ago"))
    running.cancel()
    await until(lambda: engine.stopped == ["long ago"])
    engine.gate.set()
    assert (await queue.run(request("next"))).samples.size


async def test_a_request_that_is_cancelled_while_it_waits_never_runs(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    running = await begun(engine, queue, request("running"))
    waiting = [asyncio.create_task(queue.run(request(f"w{n}"))) for n in range(50)]
    await until(lambda: queue.waiting == 50)
    for task in waiting[:-1]:
        task.cancel()
    await until(lambda: queue.waiting == 1)
    engine.gate.set()
    await asyncio.gather(running, *waiting, return_exceptions=True)
    assert engine.requested == ["running", "w49"]


async def test_an_engine_failure_affects_one_request(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    with pytest.raises(AssertionError):
        await queue.run(request("x" * 511))
    assert (await queue.run(request("next"))).seconds == pytest.approx(0.06 + 4 * 0.028)


async def test_closing_ends_running_and_waiting_requests(
    engine: ScriptedEngine, queue: SynthesisQueue
) -> None:
    running = await begun(engine, queue, request("running"))
    waiting = asyncio.create_task(queue.run(request("waiting")))
    await until(lambda: queue.waiting == 1)
    await asyncio.to_thread(queue.close)
    for task in (running, waiting):
        with pytest.raises(ServiceError, match="stopping"):
            await task
    with pytest.raises(ServiceError, match="stopping"):
        await queue.run(request("after"))

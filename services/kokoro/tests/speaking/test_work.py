"""One thread works; first pieces go first, and what nobody wants is stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from hearth_kokoro.speaking.work import InferenceResult, Order, Work
from hearth_serving.errors import ServiceError

from ..scripted import STYLES, ScriptedEngine


def order(phonemes: str, *, is_first: bool = False, due: float = 1e6, cost_s: float = 1.0) -> Order:
    return Order(phonemes, STYLES, 1.0, is_first, due, cost_s)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def work(engine: ScriptedEngine) -> AsyncIterator[Work]:
    work = Work(engine, engine.clock)
    work.start()
    yield work
    engine.gate.set()
    work.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        # Another thread makes it true, and knows nothing of this event loop.
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def begun(engine: ScriptedEngine, work: Work, made: Order) -> asyncio.Task[InferenceResult]:
    """Have one order run and wait at the closed gate."""
    engine.gate.clear()
    count = len(engine.asked)
    task = asyncio.create_task(work.do(made))
    await until(lambda: len(engine.asked) > count)
    return task


async def test_first_pieces_go_first_then_who_runs_dry_first(
    engine: ScriptedEngine, work: Work
) -> None:
    running = await begun(engine, work, order("running", is_first=True))
    names = [("late", False, 9.0), ("soon", False, 3.0), ("first", True, 5.0)]
    tasks = [
        asyncio.create_task(work.do(order(name, is_first=is_first, due=due)))
        for name, is_first, due in names
    ]
    await until(lambda: work.waiting == 3)
    engine.gate.set()
    await asyncio.gather(running, *tasks)
    assert engine.asked == ["running", "first", "soon", "late"]


async def test_a_later_piece_with_time_left_makes_room_and_is_made_again(
    engine: ScriptedEngine, work: Work
) -> None:
    running = await begun(engine, work, order("later", due=100.0))
    first = asyncio.create_task(work.do(order("first", is_first=True)))
    await until(lambda: engine.stopped == ["later"])
    engine.gate.set()
    made = await asyncio.gather(first, running)
    assert engine.asked == ["later", "first", "later"]
    assert all(one.samples.size for one in made)
    assert work.preempted == 1


@pytest.mark.parametrize("due", [0.5, 2.0])
async def test_a_later_piece_that_is_needed_soon_is_not_stopped(
    engine: ScriptedEngine, work: Work, due: float
) -> None:
    running = await begun(engine, work, order("later", due=due))
    first = asyncio.create_task(work.do(order("first", is_first=True)))
    await until(lambda: work.waiting == 1)
    engine.gate.set()
    await asyncio.gather(first, running)
    assert engine.asked == ["later", "first"]


async def test_a_piece_is_not_stopped_for_others_for_ever(
    engine: ScriptedEngine, work: Work
) -> None:
    running = await begun(engine, work, order("later", due=1e6))
    for times in range(1, 4):
        first = asyncio.create_task(work.do(order("first", is_first=True)))
        await until(lambda: engine.asked[-1] == "first")
        first.cancel()
        await until(lambda: engine.asked[-1] == "later")
        assert work.preempted == times
    first = asyncio.create_task(work.do(order("first", is_first=True)))
    await until(lambda: work.waiting == 1)
    engine.gate.set()
    await asyncio.gather(running, first)
    assert engine.asked[-2:] == ["later", "first"]
    assert work.preempted == 3


async def test_a_flood_of_first_pieces_starves_nobody(engine: ScriptedEngine, work: Work) -> None:
    running = await begun(engine, work, order("running", is_first=True))
    laters = [work.do(order(f"dry {n}", due=n * 0.1, cost_s=0.1)) for n in range(3)]
    flood = [work.do(order(f"first {n}", is_first=True, due=0.0, cost_s=0.1)) for n in range(40)]
    idle = work.do(order("has time", due=1e6))
    tasks = [asyncio.create_task(each) for each in (*laters, *flood, idle)]
    await until(lambda: work.waiting == 44)
    engine.gate.set()
    await asyncio.gather(running, *tasks)
    at = [engine.asked.index(f"dry {n}") for n in range(3)]
    assert at == [4, 9, 14]
    # Whoever has something to hear meanwhile waits for all of them.
    assert engine.asked[-1] == "has time"


async def test_what_is_cancelled_stops(engine: ScriptedEngine, work: Work) -> None:
    running = await begun(engine, work, order("long ago"))
    running.cancel()
    await until(lambda: engine.stopped == ["long ago"])
    engine.gate.set()
    assert (await work.do(order("next"))).samples.size


async def test_what_is_cancelled_before_its_turn_is_never_made(
    engine: ScriptedEngine, work: Work
) -> None:
    running = await begun(engine, work, order("running"))
    waiting = [asyncio.create_task(work.do(order(f"w{n}"))) for n in range(50)]
    await until(lambda: work.waiting == 50)
    for task in waiting[:-1]:
        task.cancel()
    await until(lambda: work.waiting == 1)
    engine.gate.set()
    await asyncio.gather(running, *waiting, return_exceptions=True)
    assert engine.asked == ["running", "w49"]


async def test_an_engine_that_fails_fails_one_order(engine: ScriptedEngine, work: Work) -> None:
    with pytest.raises(AssertionError):
        await work.do(order("x" * 511))
    assert (await work.do(order("next"))).seconds == pytest.approx(0.06 + 4 * 0.028)


async def test_closing_ends_what_runs_and_what_waits(engine: ScriptedEngine, work: Work) -> None:
    running = await begun(engine, work, order("running"))
    waiting = asyncio.create_task(work.do(order("waiting")))
    await until(lambda: work.waiting == 1)
    await asyncio.to_thread(work.close)
    for task in (running, waiting):
        with pytest.raises(ServiceError, match="stopping"):
            await task
    with pytest.raises(ServiceError, match="stopping"):
        await work.do(order("after"))

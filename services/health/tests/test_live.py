"""One rendering for all who have the page open; slow readers get the latest state, or nothing."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hearth_health import live as module
from hearth_health.live import Live

Send = Callable[[bytes], Awaitable[None]]


class House:
    """Sections that tests change, and how often they were rendered."""

    def __init__(self) -> None:
        self.sections = {"tiles": "all well", "services": "<table>"}
        self.rendered = 0

    def render(self) -> dict[str, str]:
        self.rendered += 1
        return dict(self.sections)


class Reader:
    """One open page: the events that it got, and the task that sends them."""

    def __init__(self, live: Live, send: Send | None = None) -> None:
        self.got: list[bytes] = []
        self.news = asyncio.Event()
        self.task = asyncio.create_task(live.follow(send or self.send))

    async def send(self, text: bytes) -> None:
        self.got.append(text)
        self.news.set()

    async def next(self) -> Any:
        """Return the next event's sections."""
        async with asyncio.timeout(5):
            await self.news.wait()
        self.news.clear()
        return read(self.got[-1])

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def read(event: bytes) -> Any:
    name, _, data = event.decode().partition("\n")
    return json.loads(data.removeprefix("data: ")) if name == "event: sections" else name


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_S", 0.01)


async def test_a_page_gets_everything_first_and_then_what_changed() -> None:
    house = House()
    reader = Reader(Live(house.render))
    assert await reader.next() == house.sections
    house.sections["tiles"] = "one is red"
    assert await reader.next() == {"tiles": "one is red"}
    # One that comes back later gets everything again.
    later = Reader(reader_live := Live(house.render))
    assert await later.next() == house.sections
    assert reader_live.open_pages == 1
    await reader.end()
    await later.end()
    assert reader_live.open_pages == 0


async def test_fifty_pages_are_one_rendering_and_the_same_bytes() -> None:
    house = House()
    live = Live(house.render)
    readers = [Reader(live) for _ in range(50)]
    for reader in readers:
        await reader.next()
    before = house.rendered
    house.sections["tiles"] = "one is red"
    live.sections()
    for reader in readers:
        assert await reader.next() == {"tiles": "one is red"}
    assert len({id(reader.got[-1]) for reader in readers}) == 1
    # The ticker renders as well; 50 pages would have rendered 50 times.
    assert house.rendered - before < 25
    for reader in readers:
        await reader.end()


async def test_a_slow_page_gets_the_latest_state_in_one_event() -> None:
    house = House()
    got: list[Any] = []
    blocked, may_read, second = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slowly(text: bytes) -> None:
        (second if got else blocked).set()
        got.append(read(text))
        await may_read.wait()

    live = Live(house.render)
    reader = Reader(live, slowly)
    await blocked.wait()
    for count in range(1000):
        house.sections["tiles"] = f"state {count}"
        live.sections()
    may_read.set()
    await second.wait()
    assert got[1] == {"tiles": "state 999"}
    # Nothing was stored for it meanwhile.
    assert len(live._events) <= 2
    await reader.end()


async def test_a_page_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEND_S", 0.05)

    async def stuck(_: bytes) -> None:
        await asyncio.Event().wait()

    live = Live(House().render)
    reader = Reader(live, stuck)
    await asyncio.wait({reader.task}, timeout=5)
    assert isinstance(reader.task.exception(), TimeoutError)
    assert live.open_pages == 0


async def test_a_quiet_house_sends_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.02)
    reader = Reader(Live(House().render))
    await reader.next()
    assert await reader.next() == "event: beat"
    await reader.end()


async def test_a_connection_ends_now_and_then_so_that_the_login_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LIFE_S", 0.0)
    live = Live(House().render)
    reader = Reader(live)
    await asyncio.wait({reader.task}, timeout=5)
    assert reader.task.exception() is None
    assert live.open_pages == 0


async def test_too_many_pages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 1)
    live = Live(House().render)
    reader = Reader(live)
    await reader.next()
    refused = live.respond()
    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    await reader.end()
    assert live.respond().status_code == 200


async def test_without_an_open_page_nothing_is_rendered() -> None:
    house = House()
    reader = Reader(Live(house.render))
    await reader.next()
    await reader.end()
    await asyncio.sleep(0.05)
    before = house.rendered
    await asyncio.sleep(0.1)
    assert house.rendered == before

"""What waits to be heard is bounded."""

import asyncio

from hearth_whisper.live.inbox import Inbox
from hearth_whisper.live.orders import Order


async def put(inbox: Inbox, count: int, size: int) -> tuple[int, asyncio.Task[None]]:
    """Put until no more is taken; return how many messages were."""
    taken = 0

    async def putting() -> None:
        nonlocal taken
        for _ in range(count):
            await inbox.put(bytes(size))
            taken += 1

    task = asyncio.create_task(putting())
    before = -1
    while taken != before:
        before = taken
        for _ in range(1000):
            await asyncio.sleep(0)
    return taken, task


async def test_half_a_minute_of_sound_is_taken_and_then_the_sender_waits() -> None:
    inbox = Inbox()
    taken, task = await put(inbox, 100, 32_000)
    assert 30 <= taken <= 34
    for _ in range(10):
        await inbox.get()
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


async def test_messages_of_a_byte_are_not_for_nothing() -> None:
    taken, task = await put(Inbox(), 100_000, 1)
    assert taken < 10_000
    task.cancel()


async def test_what_comes_first_is_had_first() -> None:
    inbox = Inbox()
    getting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    await inbox.put(b"a")
    await inbox.put(Order(type="flush"))
    assert await getting == b"a"
    assert await inbox.get() == Order(type="flush")

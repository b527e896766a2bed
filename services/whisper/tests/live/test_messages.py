"""The queue of messages is bounded."""

import asyncio

from hearth_whisper.live.messages import ControlMessage, MessageQueue


async def put(queue: MessageQueue, count: int, size: int) -> tuple[int, asyncio.Task[None]]:
    """Put messages until the queue is full; return their number."""
    taken = 0

    async def putting() -> None:
        nonlocal taken
        for _ in range(count):
            await queue.put(bytes(size))
            taken += 1

    task = asyncio.create_task(putting())
    before = -1
    while taken != before:
        before = taken
        for _ in range(1000):
            await asyncio.sleep(0)
    return taken, task


async def test_the_queue_holds_half_a_minute_of_audio() -> None:
    queue = MessageQueue()
    taken, task = await put(queue, 100, 32_000)
    assert 30 <= taken <= 34
    for _ in range(10):
        await queue.get()
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


async def test_small_messages_count_their_overhead() -> None:
    taken, task = await put(MessageQueue(), 100_000, 1)
    assert taken < 10_000
    task.cancel()


async def test_messages_are_returned_in_order() -> None:
    queue = MessageQueue()
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    await queue.put(b"a")
    await queue.put(ControlMessage(type="flush"))
    assert await getting == b"a"
    assert await queue.get() == ControlMessage(type="flush")

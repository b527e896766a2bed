"""Work that ends when whoever asked for it leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any


async def unless_gone(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]], work: Coroutine[Any, Any, None]
) -> bool:
    """Do `work`, and stop it at once when the client leaves; return whether it left."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return not task.done()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

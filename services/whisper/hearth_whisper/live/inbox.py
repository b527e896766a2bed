"""What a client has sent and nobody has heard yet: bounded, so that a fast sender waits."""

import asyncio
from collections import deque

from hearth_whisper.live.orders import Order, Start

# Half a minute of sound: who talks never fills it, who sends a file waits for our pace.
_MOST_BYTES = 1024 * 1024
_EACH_BYTES = 128

Item = bytes | Start | Order


class Inbox:
    """A queue between one reader of the socket and one listener, bounded by bytes."""

    def __init__(self) -> None:
        """Begin empty."""
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._changed = asyncio.Condition()

    async def put(self, item: Item) -> None:
        """Append one message, when there is room."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._bytes < _MOST_BYTES)
            self._items.append(item)
            self._bytes += _size(item)
            self._changed.notify_all()

    async def get(self) -> Item:
        """Return the next message, when it is there."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._items)
            item = self._items.popleft()
            self._bytes -= _size(item)
            self._changed.notify_all()
            return item


def _size(item: Item) -> int:
    return _EACH_BYTES + (len(item) if isinstance(item, bytes) else 0)

"""A client of the live socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hearth_whisper.recognising import SAMPLE_RATE, Samples

from ..web.conftest import House


class Line:
    """One end of a stream."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def tell(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def talk(self, sound: Samples, sizes: tuple[int, ...] = (640,), pace: float = 0) -> None:
        """Send Int16 in pieces of these bytes, one after the other, or so much faster than time."""
        data = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
        at = index = 0
        while at < len(data):
            size = sizes[index % len(sizes)]
            await self.socket.send(data[at : at + size])
            at, index = at + size, index + 1
            if pace:
                await asyncio.sleep(size / 2 / SAMPLE_RATE / pace)

    async def hear(self, within_s: float = 10) -> dict[str, Any]:
        message = await asyncio.wait_for(self.socket.recv(), within_s)
        assert isinstance(message, str)
        event: dict[str, Any] = json.loads(message)
        return event

    async def until(self, kind: str, within_s: float = 10) -> list[dict[str, Any]]:
        """Return what came up to and with an event of this kind."""
        told: list[dict[str, Any]] = []
        while not told or told[-1]["type"] != kind:
            told.append(await self.hear(within_s))
        return told

    async def closed(self) -> int:
        """Return the code with which the server ends the stream."""
        with pytest.raises(ConnectionClosed) as closed:
            await self.until("never")
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code


Dialled = Callable[..., AbstractAsyncContextManager[Line]]


@pytest.fixture
def dial() -> Dialled:
    @asynccontextmanager
    async def dialled(house: House, **more: Any) -> AsyncIterator[Line]:
        address = f"ws://127.0.0.1:{house.port}/v1/audio/transcriptions/stream"
        async with connect(address, proxy=None, close_timeout=1, **more) as opened:
            yield Line(opened)

    return dialled

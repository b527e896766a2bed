"""A client of the WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hearth_whisper.recognition import SAMPLE_RATE, Samples

from ..web.conftest import RunningServer


class StreamClient:
    """The client's end of a stream."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def send_audio(
        self, sound: Samples, sizes: tuple[int, ...] = (640,), pace: float = 0
    ) -> None:
        """Send Int16 in messages of these sizes, at once or at `pace` times real time."""
        data = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
        at = index = 0
        while at < len(data):
            size = sizes[index % len(sizes)]
            await self.socket.send(data[at : at + size])
            at, index = at + size, index + 1
            if pace:
                await asyncio.sleep(size / 2 / SAMPLE_RATE / pace)

    async def receive(self, within_s: float = 10) -> dict[str, Any]:
        message = await asyncio.wait_for(self.socket.recv(), within_s)
        assert isinstance(message, str)
        event: dict[str, Any] = json.loads(message)
        return event

    async def until(self, kind: str, within_s: float = 10) -> list[dict[str, Any]]:
        """Return all events up to one of this kind."""
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != kind:
            events.append(await self.receive(within_s))
        return events

    async def closed(self) -> int:
        """Return the code with which the server closes the stream."""
        with pytest.raises(ConnectionClosed) as closed:
            await self.until("never")
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code


ConnectStream = Callable[..., AbstractAsyncContextManager[StreamClient]]


@pytest.fixture
def connect_stream() -> ConnectStream:
    @asynccontextmanager
    async def connected(server: RunningServer, **more: Any) -> AsyncIterator[StreamClient]:
        address = f"ws://127.0.0.1:{server.port}/v1/audio/transcriptions/stream"
        async with connect(address, proxy=None, close_timeout=1, **more) as opened:
            yield StreamClient(opened)

    return connected

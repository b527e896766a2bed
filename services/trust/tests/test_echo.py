"""The echo answers the page itself, with what it was sent, and keeps nobody."""

import asyncio

import pytest
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from hearth_trust import app
from hearth_trust.config import Config

OWN = {"Origin": "https://trust.lan"}


def test_what_is_sent_comes_back_a_few_times(config: Config) -> None:
    client = TestClient(app.make_app(config))
    with client.websocket_connect("/echo", headers=OWN) as socket:
        for number in range(app.ECHOES):
            socket.send_text(f"{number}")
            assert socket.receive_text() == f"{number}"
        socket.send_text("one more")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


@pytest.mark.parametrize("origin", ["https://chat.lan", "http://trust.lan", "https://evil.example"])
def test_another_page_is_not_answered(config: Config, origin: str) -> None:
    client = TestClient(app.make_app(config))
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/echo", headers={"Origin": origin}),
    ):
        pass


def test_bytes_end_it(config: Config) -> None:
    client = TestClient(app.make_app(config))
    with client.websocket_connect("/echo", headers=OWN) as socket:
        socket.send_bytes(b"\0")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


async def test_silence_ends_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "ECHO_S", 0.05)
    sent: list[str] = []
    said: list[Message] = [{"type": "websocket.connect"}]

    async def receive() -> Message:
        # Whoever connected says nothing more.
        return said.pop() if said else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message["type"])

    headers = [(name.lower().encode(), value.encode()) for name, value in OWN.items()]
    scope = {"type": "websocket", "path": "/echo", "headers": headers, "subprotocols": []}
    # A program that waits for ever shall not keep the tests.
    async with asyncio.timeout(20):
        await app.make_app(config)(scope, receive, send)
    assert sent == ["websocket.accept", "websocket.close"]

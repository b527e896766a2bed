"""The echo returns messages to the page itself only, and closes idle connections."""

import asyncio

import pytest
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from hearth_trust import app
from hearth_trust.config import Config

OWN = {"Origin": "https://trust.lan"}


def test_echo_returns_a_few_messages(config: Config) -> None:
    client = TestClient(app.make_app(config))
    with client.websocket_connect("/echo", headers=OWN) as socket:
        for number in range(app.ECHOES):
            socket.send_text(f"{number}")
            assert socket.receive_text() == f"{number}"
        socket.send_text("one more")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


@pytest.mark.parametrize("origin", ["https://chat.lan", "http://trust.lan", "https://evil.example"])
def test_other_origins_are_rejected(config: Config, origin: str) -> None:
    client = TestClient(app.make_app(config))
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/echo", headers={"Origin": origin}),
    ):
        pass


def test_bytes_close_the_connection(config: Config) -> None:
    client = TestClient(app.make_app(config))
    with client.websocket_connect("/echo", headers=OWN) as socket:
        socket.send_bytes(b"\0")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


async def test_silence_closes_the_connection(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "ECHO_S", 0.05)
    sent: list[str] = []
    received: list[Message] = [{"type": "websocket.connect"}]

    async def receive() -> Message:
        # The client connects and sends nothing more.
        return received.pop() if received else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message["type"])

    headers = [(name.lower().encode(), value.encode()) for name, value in OWN.items()]
    scope = {"type": "websocket", "path": "/echo", "headers": headers, "subprotocols": []}
    # If the connection stays open, fail instead of waiting for ever.
    async with asyncio.timeout(20):
        await app.make_app(config)(scope, receive, send)
    assert sent == ["websocket.accept", "websocket.close"]

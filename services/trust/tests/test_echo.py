"""The echo answers the page itself, with what it was sent, and keeps nobody."""

import pytest
from starlette.testclient import TestClient
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


def test_bytes_and_silence_end_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(app.make_app(config))
    with client.websocket_connect("/echo", headers=OWN) as socket:
        socket.send_bytes(b"\0")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()
    monkeypatch.setattr(app, "ECHO_S", 0.05)
    with (
        client.websocket_connect("/echo", headers=OWN) as socket,
        pytest.raises(WebSocketDisconnect),
    ):
        socket.receive_text()

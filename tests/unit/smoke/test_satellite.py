"""Our small satellite speaks the protocol as its own library does."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from wyoming.event import Event, read_event, write_event

from hearth.smoke.satellite import SatelliteError, satellite
from tests.ports import kept_port

WITHIN_S = 5.0


class Server:
    """Answers one caller with `said` at each event of a type that it has an answer for."""

    def __init__(self, said: dict[str, list[Event]]) -> None:
        self.said, self.heard = said, list[Event]()

    def serve(self, listener: socket.socket) -> None:
        plug, _ = listener.accept()
        with plug, plug.makefile("rb") as reader, plug.makefile("wb") as writer:
            while (event := read_event(reader)) is not None:
                self.heard.append(event)
                for one in self.said.get(event.type, []):
                    write_event(one, writer)


@contextmanager
def served(server: Any) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(WITHIN_S)


def test_it_asks_what_there_is() -> None:
    server = Server({"describe": [Event("info", {"asr": [{"name": "whisper"}]})]})
    with served(server) as port, satellite("127.0.0.1", port, WITHIN_S) as one:
        assert one.describe() == {"asr": [{"name": "whisper"}]}


def test_it_speaks_and_hears_to_the_end_of_the_text() -> None:
    said = [Event("transcript", {"text": "Ja."}, b"odd"), Event("transcript-stop")]
    server, sound = Server({"audio-stop": said}), bytes(range(256)) * 20
    with served(server) as port, satellite("127.0.0.1", port, WITHIN_S) as one:
        heard = one.transcribe(sound, "de")
        assert [event.type for event in heard] == ["transcript", "transcript-stop"]
        assert heard[0].data == {"text": "Ja."}
    kinds = [event.type for event in server.heard]
    assert kinds == ["transcribe", "audio-start", *["audio-chunk"] * 3, "audio-stop"]
    assert server.heard[0].data == {"language": "de"}
    assert b"".join(event.payload or b"" for event in server.heard) == sound
    assert server.heard[2].data == {"rate": 16_000, "width": 2, "channels": 1}


def test_an_error_is_told() -> None:
    server = Server({"audio-stop": [Event("error", {"text": "too many wait"})]})
    with (
        served(server) as port,
        satellite("127.0.0.1", port, WITHIN_S) as one,
        pytest.raises(SatelliteError, match=f"127.0.0.1 port {port}: too many wait"),
    ):
        one.transcribe(b"")


class Rubbish:
    """Says something and hangs up."""

    def __init__(self, said: bytes) -> None:
        self.said = said

    def serve(self, listener: socket.socket) -> None:
        plug, _ = listener.accept()
        with plug, io.BytesIO(self.said) as said:
            plug.recv(4096)
            plug.sendall(said.read())


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"[]\n", b"{}\n", b'{"data_length": 9}\n{']
)
def test_rubbish_is_one_line(said: bytes) -> None:
    with (
        served(Rubbish(said)) as port,
        satellite("127.0.0.1", port, WITHIN_S) as one,
        pytest.raises(SatelliteError, match="it hung up, or speaks no Wyoming"),
    ):
        one.describe()


def test_silence_ends() -> None:
    server = Server({})
    with (
        served(server) as port,
        satellite("127.0.0.1", port, 0.1) as one,
        pytest.raises(SatelliteError, match=f"127.0.0.1 port {port}: "),
    ):
        one.describe()


def test_a_closed_port_is_one_line() -> None:
    with (
        kept_port() as port,
        pytest.raises(SatelliteError, match=f"127.0.0.1 port {port}: "),
        satellite("127.0.0.1", port, 1),
    ):
        pass

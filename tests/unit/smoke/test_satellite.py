"""The satellite probe reads whole replies, and reports anything else in one line."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from wyoming.event import Event, read_event, write_event

from hearth.clients import ClientError
from hearth.smoke.test_stt import DESCRIBE, converse, speech
from tests.ports import kept_port

WITHIN_S = 5.0


class Server:
    """Answers one client with the `responses` to each type of event."""

    def __init__(self, responses: dict[str, list[Event]]) -> None:
        self.responses, self.received = responses, list[Event]()

    def serve(self, listener: socket.socket) -> None:
        plug, _ = listener.accept()
        with plug, plug.makefile("rb") as reader, plug.makefile("wb") as writer:
            while (event := read_event(reader)) is not None:
                self.received.append(event)
                for one in self.responses.get(event.type, []):
                    write_event(one, writer)


@contextmanager
def served(server: Any) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(WITHIN_S)


def describe(port: int, within_s: float = WITHIN_S) -> list[Event]:
    ((events, _),) = converse("127.0.0.1", port, [DESCRIBE], "info", within_s)
    return events


def test_it_requests_a_description() -> None:
    server = Server({"describe": [Event("info", {"asr": [{"name": "whisper"}]})]})
    with served(server) as port:
        assert describe(port)[-1].data == {"asr": [{"name": "whisper"}]}


def test_it_sends_speech_and_reads_to_the_end_of_the_text() -> None:
    response = [Event("transcript", {"text": "Ja."}, b"odd"), Event("transcript-stop")]
    server, sound = Server({"audio-stop": response}), bytes(range(256)) * 20
    requests = [speech(sound, "de"), speech(b"")]
    with served(server) as port:
        first, second = converse("127.0.0.1", port, requests, "transcript-stop", WITHIN_S)
    for events, _ in (first, second):
        assert [event.type for event in events] == ["transcript", "transcript-stop"]
    assert first[0][0].data == {"text": "Ja."}
    assert first[1] > 0
    kinds = [event.type for event in server.received]
    one = ["transcribe", "audio-start", *["audio-chunk"] * 3, "audio-stop"]
    assert kinds == [*one, "transcribe", "audio-start", "audio-stop"]
    assert server.received[0].data["language"] == "de"
    assert b"".join(event.payload or b"" for event in server.received) == sound
    audio = {key: server.received[2].data[key] for key in ("rate", "width", "channels")}
    assert audio == {"rate": 16_000, "width": 2, "channels": 1}


def test_an_error_is_reported() -> None:
    server = Server({"audio-stop": [Event("error", {"text": "too many wait"})]})
    with (
        served(server) as port,
        pytest.raises(ClientError, match=f"127.0.0.1 port {port}: too many wait"),
    ):
        converse("127.0.0.1", port, [speech(b"")], "transcript-stop", WITHIN_S)


class Invalid:
    """Sends an invalid response and hangs up."""

    def __init__(self, response: bytes) -> None:
        self.response = response

    def serve(self, listener: socket.socket) -> None:
        plug, _ = listener.accept()
        with plug:
            plug.recv(4096)
            plug.sendall(self.response)


@pytest.mark.parametrize(
    "response", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"[]\n", b"{}\n", b'{"data_length": 9}\n{']
)
def test_an_invalid_response_is_one_line(response: bytes) -> None:
    with (
        served(Invalid(response)) as port,
        pytest.raises(ClientError, match="it closed the connection, or does not speak Wyoming"),
    ):
        describe(port)


def test_silence_ends() -> None:
    with (
        served(Server({})) as port,
        pytest.raises(ClientError, match=f"127.0.0.1 port {port}: no complete answer in 0.1 s"),
    ):
        describe(port, 0.1)


def test_a_closed_port_is_one_line() -> None:
    with kept_port() as port, pytest.raises(ClientError, match=f"127.0.0.1.*{port}"):
        describe(port, 1)

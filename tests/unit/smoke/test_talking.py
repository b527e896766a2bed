"""A live transcription lasts as long as its sound, and its events are timestamped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import BYTES, RATE
from hearth.clients.stt import transcribe

HALF = bytes(RATE * BYTES // 2)


@contextmanager
def talked_to(listen: Callable[[ServerConnection], None]) -> Iterator[Endpoint]:
    with serve(listen, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.socket.getsockname()[1]
            yield Endpoint("speaker", f"http://127.0.0.1:{port}")
        finally:
            server.shutdown()
            thread.join()


def listens(call: ServerConnection) -> None:
    """Report how much sound arrived, at the end."""
    call.send(json.dumps({"type": "ready"}))
    assert json.loads(call.recv())["type"] == "start"
    received = 0
    while isinstance(message := call.recv(), bytes):
        received += len(message)
    assert json.loads(message) == {"type": "end"}
    call.send(json.dumps({"type": "final", "received": received}))
    call.send(json.dumps({"type": "done"}))


def test_all_sound_is_sent_and_all_events_are_kept() -> None:
    with talked_to(listens) as call:
        came = transcribe(call, HALF, 10, after_s=0.25, real_time=False)
    assert [event.kind for event in came.events] == ["ready", "final", "done"]
    assert came.audio_s == 0.75
    assert came.of("final")[0].payload["received"] == 0.75 * RATE * BYTES


def test_sound_is_sent_in_real_time() -> None:
    with talked_to(listens) as call:
        came = transcribe(call, HALF, 10, after_s=0)
    assert came.of("final")[0].at_s - came.started >= 0.5


def test_the_reason_of_a_closed_stream_is_reported() -> None:
    def hangs_up(call: ServerConnection) -> None:
        call.send(json.dumps({"type": "ready"}))
        call.recv()
        call.close(1011, "no model")

    with talked_to(hangs_up) as call, pytest.raises(ClientError, match="no model"):
        transcribe(call, HALF[:640], 10, after_s=0, real_time=False)


def test_a_server_that_is_never_done_is_given_up() -> None:
    def dawdles(call: ServerConnection) -> None:
        call.send(json.dumps({"type": "ready"}))
        try:
            while True:
                call.recv()
        except ConnectionClosed:
            pass

    with (
        talked_to(dawdles) as call,
        pytest.raises(ClientError, match="the stream did not end within 1 s"),
    ):
        transcribe(call, HALF, 1, after_s=0, real_time=False)

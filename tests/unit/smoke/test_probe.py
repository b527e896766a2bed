"""The probe tells an open port from a closed one and reads DNS answers."""

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.machine import probe
from tests.ports import kept_port


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        yield plug.getsockname()[1]


def test_open_and_closed(listener: int) -> None:
    assert probe.connect("127.0.0.1", listener)[0] == "open"
    with kept_port() as closed:
        assert probe.connect("127.0.0.1", closed)[0] == "refused"


@pytest.mark.parametrize(
    ("answers", "outcome"), [(b"HTTP/1.1 503 Busy\r\n", "open"), (b"", "hung"), (None, "hung")]
)
def test_a_path_needs_the_beginning_of_an_answer(
    answers: bytes | None, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It answers, closes the connection, or keeps it open in silence.
    monkeypatch.setattr(probe, "WITHIN_S", 0.3 if answers is None else 20)
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers: list[socket.socket] = []

        def serve() -> None:
            peers.append(server.accept()[0])
            if answers is not None:
                assert peers[0].recv(512).startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:")
                peers[0].sendall(answers)
                peers[0].close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert probe.connect("127.0.0.1", server.getsockname()[1], "/health")[0] == outcome
        thread.join()
        peers[0].close()


def test_silence_is_told_from_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "WITHIN_S", 0.05)
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        plug.listen(0)
        where = plug.getsockname()
        # Fill the queue: nothing accepts, so a later connection gets no response.
        full = [socket.socket() for _ in range(3)]
        for one in full:
            one.setblocking(False)
            one.connect_ex(where)
        assert probe.connect(*where)[0] == "silent"
        for one in full:
            one.close()


def test_it_runs_as_a_program_by_itself(listener: int) -> None:
    program = Path(probe.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        input=json.dumps({"connect": [["127.0.0.1", listener]]}),
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    found = json.loads(done.stdout)
    assert found["connect"][0][0] == "open"
    assert found["resolve"] == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_dns_answers_are_read(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        server.bind((address, 0))

        def serve() -> None:
            query, peer = server.recvfrom(512)
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
            pointer = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + bytes([192, 168, 1, 5])
            server.sendto(head + query[12:] + pointer, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        connect = socket.socket.connect

        def connect_to_server(plug: socket.socket, where: tuple[str, int]) -> None:
            connect(plug, server.getsockname())

        monkeypatch.setattr(socket.socket, "connect", connect_to_server)
        assert probe.resolve(address, "llm.lan", "A") == (0, ["192.168.1.5"])
        thread.join()


def test_a_target_is_tried_alone_until_it_is_rejected_quickly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "PAUSE_S", 0)
    outcomes = [("silent", 2.0), ("rejected", 1.5), ("rejected", 0.1), ("open", 0.1)]
    monkeypatch.setattr(probe, "connect", lambda *_: outcomes.pop(0))
    request = {"alone": [["10.0.0.1", 80]]}
    assert probe.answer(request)["alone"] == [("rejected", 0.1)]
    outcomes[:] = [("silent", 2.0)] * probe.TRIES
    assert probe.answer(request)["alone"] == [("silent", 2.0)]

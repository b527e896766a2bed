"""Debian's Caddy as a program's gate: answers come whole, and the program is told who left."""

from __future__ import annotations

import http.client
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import kept_port
from tests.unit.roles.caddies import caddy

FILE = (Path(__file__).parents[3] / "incus" / "ollama-gate.Caddyfile").read_text()
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b"x" * 200
# What a gate that passes on as it reads needs to have asked the program; it loses some races.
SOON_S, RACES = 0.02, 100
PATIENCE_S = 20


class Server(socketserver.ThreadingTCPServer):
    """Where the program listens, and what has happened to it."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on any port of the loopback."""
        super().__init__(("127.0.0.1", 0), Program)
        self.asked, self.left = threading.Event(), threading.Event()


class Program(socketserver.StreamRequestHandler):
    """A program that begins its answer at once, or one that thinks for as long as it is asked."""

    server: Server

    def handle(self) -> None:
        line = self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        self.server.asked.set()
        if b"/api/chat" in line:
            self.wfile.write(HEAD + b"5\r\nfirst\r\n")
            self.rfile.read(len(BODY))
            self.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")
            return
        self.rfile.read(len(BODY))
        # Nothing more comes but the end.
        self.rfile.read(1)
        self.server.left.set()


@pytest.fixture
def program() -> Iterator[Server]:
    """A program that runs behind the gate."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def gate(program: Server, tmp_path: Path) -> Iterator[http.client.HTTPConnection]:
    """A connection to the gate, as the reference house has it in front of Ollama."""
    behind = program.server_address[1]
    file = tmp_path / "Caddyfile"
    with kept_port() as port:
        text = FILE.replace("127.0.0.1:11434", f"127.0.0.1:{behind}")
        text = text.replace("10.140.30.11:11434", f"127.0.0.1:{port}")
        file.write_text(text.replace("10.140.30.11", "127.0.0.1"))
        with caddy(file, port):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            yield connection
            connection.close()


def begin(gate: http.client.HTTPConnection, path: str) -> None:
    gate.putrequest("POST", path)
    gate.putheader("Content-Length", str(len(BODY)))
    gate.endheaders()


def test_an_answer_that_begins_before_the_request_has_ended_is_whole(
    gate: http.client.HTTPConnection, program: Server
) -> None:
    for _ in range(RACES):
        program.asked.clear()
        begin(gate, "/api/chat")
        gate.send(BODY[:100])
        # A gate that holds nothing back has the answer's begin here, and may lose its end.
        program.asked.wait(SOON_S)
        gate.send(BODY[100:])
        assert gate.getresponse().read() == b"firstlast"


def test_a_caller_who_leaves_is_not_worked_for(
    gate: http.client.HTTPConnection, program: Server
) -> None:
    begin(gate, "/api/generate")
    gate.send(BODY)
    assert program.asked.wait(PATIENCE_S)
    gate.close()
    assert program.left.wait(PATIENCE_S)

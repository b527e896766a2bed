"""Debian's Caddy as a sidecar proxy: whole responses, and a program that sees who left."""

from __future__ import annotations

import http.client
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import kept_port
from tests.unit.roles.caddies import caddy

FILE = (Path(__file__).parents[3] / "incus" / "ollama-proxy.Caddyfile").read_text()
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b"x" * 200
# A proxy that passes on as it reads has requested the program by then; it loses some races.
SOON_S, RACES = 0.02, 100
PATIENCE_S = 20


class Server(socketserver.ThreadingTCPServer):
    """Where the program listens, and what has happened to it."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on any port of the loopback."""
        super().__init__(("127.0.0.1", 0), Program)
        self.requested, self.left = threading.Event(), threading.Event()


class Program(socketserver.StreamRequestHandler):
    """A program that begins its answer at once, or one that thinks for as long as it takes."""

    server: Server

    def handle(self) -> None:
        line = self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        self.server.requested.set()
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
    """A program that runs behind the proxy."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(program: Server, tmp_path: Path) -> Iterator[http.client.HTTPConnection]:
    """A connection to the proxy, as the reference house has it in front of Ollama."""
    behind = program.server_address[1]
    file = tmp_path / "Caddyfile"
    with kept_port() as port:
        text = FILE.replace("127.0.0.1:11434", f"127.0.0.1:{behind}")
        text = text.replace("10.140.30.10:11434", f"127.0.0.1:{port}")
        file.write_text(text.replace("10.140.30.10", "127.0.0.1"))
        with caddy(file, port):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            yield connection
            connection.close()


def start(proxy: http.client.HTTPConnection, path: str) -> None:
    proxy.putrequest("POST", path)
    proxy.putheader("Content-Length", str(len(BODY)))
    proxy.endheaders()


def test_a_response_that_starts_before_the_end_of_the_request_is_complete(
    proxy: http.client.HTTPConnection, program: Server
) -> None:
    for _ in range(RACES):
        program.requested.clear()
        start(proxy, "/api/chat")
        proxy.send(BODY[:100])
        # A proxy that holds nothing back has the start of the response here, and may lose its end.
        program.requested.wait(SOON_S)
        proxy.send(BODY[100:])
        assert proxy.getresponse().read() == b"firstlast"


def test_a_disconnect_cancels_the_request(
    proxy: http.client.HTTPConnection, program: Server
) -> None:
    start(proxy, "/api/generate")
    proxy.send(BODY)
    assert program.requested.wait(PATIENCE_S)
    proxy.close()
    assert program.left.wait(PATIENCE_S)

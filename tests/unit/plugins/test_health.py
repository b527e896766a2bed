"""Healthy is what answers as the record says, in its time; a port that is open proves nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import pytest

from hearth.catalogue import derive, load
from hearth.catalogue.house import Service
from hearth.clients import health
from tests.ports import kept_port
from tests.role_data import ROOT
from tests.unit.plugins.by_path import plugin

KNOWN = b"\x04home\x03lan\0"


class Answers(BaseHTTPRequestHandler):
    """One path per kind of answer."""

    def do_GET(self) -> None:
        if self.path == "/garbage":
            self.wfile.write(b"SSH-2.0-OpenSSH_10.0\r\n")
            return
        code = {"/loading": 503, "/accepted": 202, "/moved": 302}.get(self.path, 200)
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/health")
        self.end_headers()
        if self.path == "/drip":
            self._drip()
        elif code != 503:
            self.wfile.write(b'{"status": "healthy"}')

    def _drip(self) -> None:
        # Twenty seconds: a client that ends sooner has left.
        try:
            for _ in range(400):
                self.wfile.write(b".")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def module() -> ModuleType:
    return plugin("modules", "service_converge")


def health_at(url: str, contains: str = '"healthy"', within_s: float = 30) -> dict[str, Any]:
    return {"url": url, "contains": contains, "within_s": within_s, "ready_s": 1}


@pytest.fixture(scope="module")
def ollama() -> Service:
    return derive(load(ROOT / "inventory")).services["ollama"]


@pytest.mark.parametrize(
    ("path", "contains", "within_s", "healthy"),
    [
        ("/health", '"healthy"', 30.0, True),
        ("/health", '"ready"', 30.0, False),
        ("/loading", '"healthy"', 30.0, False),
        # Another answer than 200 is another program's, or one that is not ready.
        ("/accepted", '"healthy"', 30.0, False),
        ("/moved", '"healthy"', 30.0, False),
        ("/garbage", '"healthy"', 30.0, False),
        ("/drip", '"healthy"', 0.3, False),
    ],
)
def test_the_module_uses_the_rule_of_the_status_and_the_smoke_tests(
    module: ModuleType,
    ollama: Service,
    server: str,
    path: str,
    contains: str,
    within_s: float,
    healthy: bool,
) -> None:
    record = replace(ollama.health, path=path, contains=contains, within_s=within_s)
    assert health.check(replace(ollama, url=server, health=record)).healthy == healthy
    assert (module.healthy(health_at(f"{server}{path}", contains, within_s)) == "") == healthy


KEPT_OPEN = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n" + b'"healthy"',
    "pieces": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\n"heal\r\n4\r\nthy"\r\n'
    b"0\r\n\r\n",
}


@pytest.mark.parametrize("answer", KEPT_OPEN.values(), ids=KEPT_OPEN)
def test_an_answer_is_complete_although_its_connection_stays_open(
    ollama: Service, answer: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        held: list[socket.socket] = []

        def serve() -> None:
            connection, _ = listener.accept()
            held.append(connection)
            connection.recv(65536)
            # In two parts, as a network delivers it.
            connection.sendall(answer[:20])
            time.sleep(0.05)
            connection.sendall(answer[20:])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        record = replace(ollama.health, contains='"healthy"', within_s=20)
        found = health.check(replace(ollama, url=url, health=record))
        thread.join(20)
        for connection in held:
            connection.close()
    assert found.reason == ""


def test_the_module_waits_for_two_more_restarts(module: ModuleType) -> None:
    assert module.LOOP == health.RESTART_LIMIT + 2


def test_the_expected_content_is_healthy(module: ModuleType, server: str) -> None:
    assert module.healthy(health_at(f"{server}/health")) == ""


def test_other_content_is_not_healthy(module: ModuleType, server: str) -> None:
    seen = module.healthy(health_at(f"{server}/health", '"ready"'))
    assert seen == "an answer without '\"ready\"'"


def test_an_error_is_not_healthy(module: ModuleType, server: str) -> None:
    assert module.healthy(health_at(f"{server}/loading")) == "HTTP 503"


def test_another_protocol_is_not_healthy(module: ModuleType, server: str) -> None:
    assert "SSH-2.0" in module.healthy(health_at(f"{server}/garbage"))


def test_an_endless_slow_response_is_not_healthy(module: ModuleType, server: str) -> None:
    drip, start = health_at(f"{server}/drip", within_s=0.3), time.monotonic()
    # A machine that stalls delays one drop so long that other words are right; not three times.
    assert any(module.healthy(drip) == "no complete answer in 0.3 s" for _ in range(3))
    assert time.monotonic() - start < 3


def test_a_missing_server_is_not_healthy(module: ModuleType) -> None:
    with kept_port() as port:
        assert "refused" in module.healthy(health_at(f"http://127.0.0.1:{port}/"))


def test_the_machines_http_proxy_is_not_used(
    module: ModuleType, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert module.healthy(health_at(f"{server}/health")) == ""


@pytest.mark.parametrize(("command", "seen"), [("/bin/true", ""), ("/bin/false", "exit code 1")])
def test_a_command_reports_it_by_its_exit_code(module: ModuleType, command: str, seen: str) -> None:
    assert module.healthy({"command": [command], "ready_s": 1}) == seen


@contextmanager
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A resolver that knows one name; the module's port 53 leads to it."""
    wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wire.bind(("127.0.0.1", 0))
    address = wire.getsockname()

    def answer() -> None:
        question, caller = wire.recvfrom(512)
        found = KNOWN in question
        head = question[:2] + b"\x81\x80\0\1\0" + (b"\1" if found else b"\0") + b"\0\0\0\0"
        wire.sendto(head + question[12:], caller)

    real = socket.socket.sendto
    monkeypatch.setattr(
        socket,
        "socket",
        type(
            "Led",
            (socket.socket,),
            {"sendto": lambda self, data, to: real(self, data, address if to[1] == 53 else to)},
        ),
    )
    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield
    thread.join(5)
    wire.close()


@pytest.mark.parametrize(
    ("name", "seen"), [("home.lan", ""), ("hume.lan", "no address for hume.lan")]
)
def test_a_resolver_is_healthy_when_it_knows_the_houses_name(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, seen: str
) -> None:
    with resolver(monkeypatch):
        health = {"dns_name": name, "dns_server": "127.0.0.1", "ready_s": 1}
        assert module.healthy(health) == seen

"""The program as systemd starts and stops it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.ports import kept_port

PACKAGE = Path(__file__).parent.parent
KEY = "webui-key-" + "0123456789" * 3


def command(folder: Path, *more: str) -> list[str]:
    config = str(folder / "login.json")
    return [sys.executable, "-W", "error", "-m", "hearth_login", "--config", config, *more]


def environment(folder: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": str(PACKAGE),
        "CREDENTIALS_DIRECTORY": str(folder),
        "STATE_DIRECTORY": str(folder),
        "PATH": os.defpath,
    }


@pytest.fixture
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with kept_port() as port, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command(folder, "--port", str(port)), env=environment(folder), stderr=log
        )
        try:
            wait_for(port)
            yield process, port
        finally:
            process.kill()
            process.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the login did not start"
            time.sleep(0.05)


def ask(port: int, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(raw)
        return connection.recv(65536)


def check(*headers: str) -> bytes:
    lines = ("GET /check HTTP/1.1", "Host: 127.0.0.1", "X-Forwarded-Host: llm.lan", *headers)
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def test_serves_survives_garbage_and_stops_at_once(
    running: tuple[subprocess.Popen[bytes], int], folder: Path
) -> None:
    process, port = running
    health = httpx.get(f"http://127.0.0.1:{port}/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert ask(port, check(f"Authorization: Bearer {KEY}")).startswith(b"HTTP/1.1 204")
    upgrade = check(f"Authorization: Bearer {KEY}", "Connection: Upgrade", "Upgrade: websocket")
    assert ask(port, upgrade).startswith(b"HTTP/1.1 204")
    for raw in (
        b"\x16\x03\x01\x02\x00\x01",
        b"\x00" * 99 + b"\r\n\r\n",
        b"GET /check HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        check("no colon in this line"),
        check("Authorization: Bearer \xff\xfe"),
        check("Cookie: " + "x" * 100_000),
        check("Content-Length: -1"),
        b"GET http://[ HTTP/1.1\r\nHost: [\r\n\r\n",
        b"POST /hearth-login/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9" + b"9" * 5000 + b"\r\n\r\n",
    ):
        answer = ask(port, raw)
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 2")), (raw[:50], answer[:50])
    # One that waits with its connection open, and one that never sends the rest of its form.
    half = "\r\n".join(
        (
            "POST /hearth-login/ HTTP/1.1",
            "Host: a",
            "X-Forwarded-Host: home.lan",
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Length: 100",
            "",
            "",
        )
    ).encode()
    with (
        socket.create_connection(("127.0.0.1", port)) as idle,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        idle.sendall(check())
        assert idle.recv(100).startswith(b"HTTP/1.1 401")
        slow.sendall(half)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) in (0, -signal.SIGTERM)
        assert time.monotonic() - started < 5
    log = (folder / "log").read_text()
    assert KEY not in log
    assert "Traceback" not in log
    assert "consumer=webui" in log


def test_listens_on_loopback_only(folder: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "localhost"):
        done = subprocess.run(
            command(folder, "--host", host),
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 2
        assert done.stderr == (
            f"hearth-login: --host {host}: must be a loopback address such as 127.0.0.1\n"
        )

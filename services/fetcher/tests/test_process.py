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

SERVICES = Path(__file__).parents[2]


@pytest.fixture
def running() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with kept_port() as port:
        argv = [sys.executable, "-W", "error", "-m", "hearth_fetcher", "--port", str(port)]
        folders = os.pathsep.join(str(SERVICES / name) for name in ("fetcher", "serving"))
        process = subprocess.Popen(
            [*argv, "--closed", "192.0.2.0/24"], env={**os.environ, "PYTHONPATH": folders}
        )
        try:
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            assert httpx.get(f"{url}/health").json() == {"status": "ok"}
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the fetcher did not start"
            time.sleep(0.05)


def test_it_starts_rejects_and_stops(running: tuple[subprocess.Popen[bytes], str]) -> None:
    process, url = running
    wait_for(url)
    for place in ("http://127.0.0.1/", "http://192.0.2.7/", "https://10.140.30.14/"):
        response = httpx.post(f"{url}/fetch", json={"url": place})
        assert response.status_code == 403
        assert "is not on the internet" in response.json()["error"]["message"]
    # The resolver is this machine's own; this name is never public, whatever it answers.
    response = httpx.post(f"{url}/fetch", json={"url": "http://localhost.localdomain/"}, timeout=30)
    assert response.status_code in (403, 502)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "hearth_fetcher", "--port", str(port)],
            env={
                **os.environ,
                "PYTHONPATH": f"{SERVICES / 'fetcher'}{os.pathsep}{SERVICES / 'serving'}",
            },
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"hearth-fetcher: cannot listen on 127.0.0.1 port {port}: Address already in use"
    ]

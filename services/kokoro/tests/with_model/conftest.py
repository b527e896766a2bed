"""One real process with the full-size network and made-up weights, as its unit starts it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.mock_upstreams.__main__ import DEFAULT_CACHE
from tests.mock_upstreams.kokoro import prepare
from tests.mock_upstreams.kokoro.files import FP32, VOICES
from tests.ports import kept_port

PACKAGE = Path(__file__).parents[2]
# The packages of this tree, whatever is installed.
PATHS = os.pathsep.join(str(PACKAGE.parent / name) for name in (PACKAGE.name, "serving"))
READY_S = 300


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    port: int
    process: subprocess.Popen[bytes]
    log_file: Path
    ready_mib: float = 0
    """The memory after the warm-up, without the caches."""

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(f"{self.url}/status", trust_env=False).json()
        return answer

    def memory_mib(self) -> float:
        """Return the memory without the caches, which may grow to their limits."""
        status = self.status()
        cached = sum(cache["bytes"] for cache in status["caches"].values())
        occupied: int = status["memory_bytes"] - cached
        return occupied / 2**20

    def cpu_s(self) -> float:
        """Return the processor seconds that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self) -> str:
        return self.log_file.read_text()


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of made-up weights: the lab's if it exists, otherwise a new one."""
    writable = DEFAULT_CACHE.is_dir() and os.access(DEFAULT_CACHE, os.W_OK)
    return prepare(DEFAULT_CACHE if writable else tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the user's cache, where servers store their measurements."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def server(
    weights: Path, state: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return the server that all tests of this folder share."""
    with started(weights, state, tmp_path_factory.mktemp("kokoro")) as running:
        yield running
        assert "unexpected" not in running.log()


@contextmanager
def started(weights: Path, state: Path, folder: Path, *, warm: bool = True) -> Iterator[Server]:
    """Start a server and wait until it responds and is warm."""
    command = [sys.executable, "-W", "error", "-P", "-m", "hearth_kokoro"]
    command += ["--model", str(weights / FP32), "--voices", str(weights / VOICES)]
    log_file = folder / "log"
    with kept_port() as port, log_file.open("wb") as log:
        command += ["--port", str(port)]
        process = subprocess.Popen(
            command,
            env={"PATH": os.defpath, "PYTHONPATH": PATHS, "XDG_CACHE_HOME": str(state)},
            cwd=folder,
            stderr=log,
        )
        running = Server(f"http://127.0.0.1:{port}", port, process, log_file)
        try:
            await_answer(running, warm)
            yield replace(running, ready_mib=running.memory_mib()) if warm else running
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            finally:
                process.kill()
                process.wait()


def await_answer(server: Server, warm: bool) -> None:
    """Wait until it responds and, if `warm`, is healthy."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and server.process.poll() is None:
        try:
            health = httpx.get(f"{server.url}/health", timeout=2, trust_env=False)
            if health.is_success or not warm:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{server.log()[-3000:]}")


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    """Return the official client."""
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as made:
        yield made


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """Return a plain client."""
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as made:
        yield made

"""Real processes: this server, Whisper and Kokoro with made-up weights, and a scripted gateway."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.mock_upstreams.__main__ import DEFAULT_CACHE
from tests.mock_upstreams.kokoro import prepare as prepare_kokoro
from tests.mock_upstreams.kokoro.files import FP32, VOICES
from tests.mock_upstreams.whisper import prepare as prepare_whisper
from tests.ports import kept_port

from ..parts import Gateway, serving

SERVICES = Path(__file__).parents[3]
READY_S = 300


@dataclass(frozen=True, slots=True)
class Process:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def started(folder: Path, package: str, path: str, arguments: Sequence[str]) -> Iterator[Process]:
    """Start a server of ours as its unit does, and wait until it is healthy."""
    log = folder / f"{package}.log"
    paths = [str(SERVICES / name) for name in (package.removeprefix("hearth_"), "serving")]
    with kept_port() as port, log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", package, *arguments, "--port", str(port)],
            env={
                "PATH": os.defpath,
                "PYTHONPATH": os.pathsep.join(paths),
                "XDG_CACHE_HOME": str(folder / "cache"),
            },
            cwd=folder,
            stderr=output,
        )
        running = Process(f"http://127.0.0.1:{port}", process, log)
        try:
            _wait(running, path)
            yield running
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(20)
            finally:
                process.kill()
                process.wait()


def _wait(server: Process, path: str) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end and server.process.poll() is None:
        try:
            if httpx.get(server.url + path, timeout=2, trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{server.log.read_text()[-2000:]}")


def cache_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that outlives the tests, where there is one."""
    writable = DEFAULT_CACHE.is_dir() and os.access(DEFAULT_CACHE, os.W_OK)
    return DEFAULT_CACHE if writable else factory.getbasetemp().parent


@pytest.fixture(scope="session")
def ears(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Whisper, with the smallest network and random weights."""
    model = prepare_whisper(cache_folder(tmp_path_factory), "tiny.en")
    folder = tmp_path_factory.mktemp("ears")
    with started(folder, "hearth_whisper", "/health", ["--model", str(model)]) as running:
        yield running


@pytest.fixture(scope="session")
def mouth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Kokoro, with the full-size network and made-up weights."""
    weights = prepare_kokoro(cache_folder(tmp_path_factory))
    arguments = ["--model", str(weights / FP32), "--voices", str(weights / VOICES)]
    folder = tmp_path_factory.mktemp("mouth")
    with started(folder, "hearth_kokoro", "/health", arguments) as running:
        yield running


@dataclass(frozen=True, slots=True)
class RealHouse:
    """The server under test, and what it talks to."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    ears: Process
    mouth: Process
    gateway: Gateway

    @property
    def memory_mib(self) -> float:
        return (
            float(httpx.get(f"{self.url}/status", trust_env=False).json()["memory_bytes"]) / 2**20
        )


@pytest.fixture
async def real_house(ears: Process, mouth: Process, tmp_path: Path) -> AsyncIterator[RealHouse]:
    gateway = Gateway()
    async with serving(gateway.app()) as litellm:
        config = tmp_path / "config.json"
        parts = {"litellm": litellm, "whisper": ears.url, "kokoro": mouth.url}
        config.write_text(json.dumps(parts))
        with started(tmp_path, "hearth_voice", "/health", ["--config", str(config)]) as running:
            yield RealHouse(running.url, running.process, running.log, ears, mouth, gateway)
            assert "unexpected" not in running.log.read_text()

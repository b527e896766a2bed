"""Runs the scripted listening server, and speaks to it briefly."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from hearth.clients import endpoints
from hearth.clients import recordings as spoken
from tests.unit.bench.stt.scripted import Scripted, Stage, app

TONE_S = 0.1


def tone(seconds: float = TONE_S) -> bytes:
    """As loud as speech, and as trimmed."""
    samples = round(seconds * spoken.RATE)
    return array("h", (round(9000 * math.sin(0.2 * n + 1.3)) for n in range(samples))).tobytes()


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is scripted settles at once; a real server is given a moment to notice who left."""
    monkeypatch.setattr(endpoints, "_POLL_S", 0.001)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every recording is a tone of a tenth of a second: real time is the same time, but less."""

    def read_audio(path: Path) -> bytes:
        return tone()

    spoken.utterances.cache_clear()
    monkeypatch.setattr(spoken, "read_audio", read_audio)
    yield
    spoken.utterances.cache_clear()


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """One server for all tests: starting and ending it takes longer than most of them."""
    stage = Stage()
    config = uvicorn.Config(
        app(stage), log_level="critical", lifespan="off", ws="websockets-sansio"
    )
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        stage.script.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        run = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        run.start()
        with contextlib.ExitStack() as stack:
            stack.callback(run.join, 10)
            stack.callback(lambda: setattr(server, "should_exit", True))
            while not server.started:
                time.sleep(0.005)
            yield stage


@pytest.fixture
def scripted(stage: Stage) -> Scripted:
    """A script of this test's own; requests in progress keep the earlier one."""
    stage.script = Scripted(url=stage.script.url)
    return stage.script

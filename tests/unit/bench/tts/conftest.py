"""Runs the scripted speech server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvicorn

from hearth.clients import endpoints
from tests.mock_upstreams import certificates, names
from tests.unit.bench.tts.scripted import Scripted, Stage, app


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is scripted settles at once; a real server is given a moment to notice who left."""
    monkeypatch.setattr(endpoints, "_POLL_S", 0.005)


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """One server for all tests: starting and ending it takes longer than most of them."""
    stage = Stage()
    with serving(stage, "http"):
        yield stage


@pytest.fixture
def scripted(stage: Stage) -> Scripted:
    """A script of this test's own; requests in progress keep the earlier one."""
    stage.script = Scripted(url=stage.script.url)
    return stage.script


@pytest.fixture
def brisk(scripted: Scripted) -> Scripted:
    """The same for a test that judges no time by the clock."""
    scripted.piece_s = 0.004
    return scripted


@pytest.fixture
def over_tls(tmp_path: Path) -> Iterator[tuple[Scripted, str, ssl.SSLContext]]:
    """The same server over TLS, the name it bears, and what trusts it."""
    certificate, key = certificates.prepare(tmp_path, datetime.now(UTC))
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.load_verify_locations(certificates.authority_path(tmp_path))
    stage = Stage()
    with serving(stage, "https", ssl_certfile=str(certificate), ssl_keyfile=str(key)):
        yield stage.script, names.ALL[0], trust


@contextlib.contextmanager
def serving(stage: Stage, scheme: str, **tls: str) -> Iterator[None]:
    """Serve what is on the stage on a free port of the loopback."""
    config = uvicorn.Config(app(stage), log_level="critical", lifespan="off", ws="none", **tls)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        stage.script.url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        run = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        run.start()
        try:
            while not server.started:
                time.sleep(0.005)
            yield
        finally:
            # Requests in progress are not waited for.
            server.should_exit = server.force_exit = True
            run.join(10)

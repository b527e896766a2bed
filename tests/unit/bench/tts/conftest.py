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

from tests.farside import certificates, names
from tests.unit.bench.tts.scripted import Scripted, app


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    script = Scripted()
    with serving(script, "http"):
        yield script


@pytest.fixture
def over_tls(tmp_path: Path) -> Iterator[tuple[Scripted, str, ssl.SSLContext]]:
    """The same server over TLS, the name it bears, and what trusts it."""
    certificate, key = certificates.prepare(tmp_path, datetime.now(UTC))
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.load_verify_locations(certificates.authority_path(tmp_path))
    script = Scripted()
    with serving(script, "https", ssl_certfile=str(certificate), ssl_keyfile=str(key)):
        yield script, names.ALL[0], trust


@contextlib.contextmanager
def serving(script: Scripted, scheme: str, **tls: str) -> Iterator[None]:
    """Serve the script on a free port of the loopback."""
    config = uvicorn.Config(app(script), log_level="critical", lifespan="off", ws="none", **tls)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        script.url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        run = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        run.start()
        try:
            while not server.started:
                time.sleep(0.005)
            yield
        finally:
            # Whoever is still being spoken to is not waited for.
            server.should_exit = server.force_exit = True
            run.join(10)

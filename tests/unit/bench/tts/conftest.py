"""Runs the scripted speech server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from tests.unit.bench.tts.scripted import Scripted, app


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    script = Scripted()
    config = uvicorn.Config(app(script), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        script.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.005)
            yield script
        finally:
            # Whoever is still being spoken to is not waited for.
            server.should_exit = server.force_exit = True
            thread.join(10)

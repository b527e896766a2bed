"""Debian's Caddy with a file of a test's own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def caddy(file: Path, port: int) -> Iterator[None]:
    """Run it beside its file, from when it listens at a port of the loopback."""
    process = subprocess.Popen(
        ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)],
        env={**os.environ, "HOME": str(file.parent)},
        stderr=subprocess.DEVNULL,
    )
    try:
        _listens(port, process)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens."""
    while True:
        assert process.poll() is None, "caddy has ended"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return

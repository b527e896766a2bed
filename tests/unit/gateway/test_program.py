"""How the gateway serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uvicorn

from hearth_gateway import __main__ as program

# Caddy closes a connection to a server after it was idle for so long.
CADDY_IDLE_S = 120


def test_the_reverse_proxy_closes_an_idle_connection_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a request may meet the end of its connection, and Caddy sends no POST twice."""
    options: dict[str, Any] = {}
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(program, "build", lambda *_: None)
    monkeypatch.setattr(uvicorn, "run", lambda _, **more: options.update(more))
    assert program.main([]) == 0
    assert options["timeout_keep_alive"] > CADDY_IDLE_S

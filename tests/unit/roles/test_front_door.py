"""What Caddy itself makes of the front door's file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_no_half_request_holds_a_connection_for_long() -> None:
    file = str(ROOT / "caddy" / "Caddyfile")
    command = ["caddy", "adapt", "--adapter", "caddyfile", "--config", file]
    adapted = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout
    servers = json.loads(adapted)["apps"]["http"]["servers"]
    assert {port for server in servers.values() for port in server["listen"]} == {":80", ":443"}
    for server in servers.values():
        assert 0 < server["read_header_timeout"] <= 30 * 10**9
        # Tokens and uploads may take as long as they need.
        assert "read_timeout" not in server
        assert "write_timeout" not in server

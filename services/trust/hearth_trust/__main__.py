"""Serve the trust page: `python3 -m hearth_trust --config FILE --port 9181`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from .app import make_app
from .config import TrustError, load_config

# The longest message that the echo accepts, in bytes.
ECHO_BYTES = 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    parser = argparse.ArgumentParser(prog="hearth_trust", description="The trust page.")
    parser.add_argument("--config", type=Path, required=True, help="names and certificate, as JSON")
    parser.add_argument("--port", type=int, default=9181)
    options = parser.parse_args(argv)
    try:
        app = make_app(load_config(options.config))
    except TrustError as error:
        print(f"hearth-trust: {error}", file=sys.stderr)
        return 2
    uvicorn.run(
        app,
        # Only the reverse proxy on this machine connects.
        host="127.0.0.1",
        port=options.port,
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        http="h11",
        ws="websockets-sansio",
        ws_max_size=ECHO_BYTES,
        ws_per_message_deflate=False,
        # A client that opens an echo and disappears must not hold its connection for long.
        ws_ping_interval=10,
        ws_ping_timeout=10,
        limit_concurrency=64,
        timeout_graceful_shutdown=1,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Serve the page: `python3 -m hearth_trust --config FILE --port 9181`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from .app import make_app
from .config import TrustError, load_config

# The longest text that it sends back, in bytes.
ECHO_BYTES = 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; 2 and one line on stderr when there is nothing to hand out."""
    parser = argparse.ArgumentParser(prog="hearth_trust", description="The page of trust.")
    parser.add_argument("--config", type=Path, required=True, help="what to show, as JSON")
    parser.add_argument("--port", type=int, default=9181)
    options = parser.parse_args(argv)
    try:
        app = make_app(load_config(options.config))
    except TrustError as error:
        print(f"hearth-trust: {error}", file=sys.stderr)
        return 2
    uvicorn.run(
        app,
        # Only the front door beside it has any business here.
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
        # Somebody who opens an echo and goes away holds nothing for long.
        ws_ping_interval=10,
        ws_ping_timeout=10,
        limit_concurrency=64,
        timeout_graceful_shutdown=1,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

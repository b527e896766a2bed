"""Serve the health page: `python3 -m hearth_health --config FILE --port 9182`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from .app import make_app
from .config import HealthError, load_config


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    parser = argparse.ArgumentParser(prog="hearth_health", description="The house's page.")
    parser.add_argument("--config", type=Path, required=True, help="sites and places, as JSON")
    parser.add_argument("--port", type=int, default=9182)
    options = parser.parse_args(argv)
    try:
        app = make_app(load_config(options.config), lambda: server.should_exit)
    except HealthError as error:
        print(f"hearth-health: {error}", file=sys.stderr)
        return 2
    settings = uvicorn.Config(
        app,
        # Only the reverse proxy on this machine connects.
        host="127.0.0.1",
        port=options.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http="h11",
        ws="none",
        limit_concurrency=300,
        # Longer than the reverse proxy keeps an idle connection, so that it never sends a button
        # into one that is being closed.
        timeout_keep_alive=130,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(settings)
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

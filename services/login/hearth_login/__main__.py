"""Run the login: `python3 -m hearth_login --config FILE --host 127.0.0.1 --port 9180`."""

import argparse
import ipaddress
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from .app import make_app
from .check import LoginState, make_state
from .config import LoginError, load_config
from .credentials import load_credentials
from .sessions import EndedSessions


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    options = _options(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        state = _state(options)
    except LoginError as error:
        print(f"hearth-login: {error}", file=sys.stderr)
        return 2
    logging.info("guards %s", ", ".join(sorted(state.config.sites)) or "nothing")
    uvicorn.run(
        make_app(state),
        host=options.host,
        port=options.port,
        log_config=None,
        # Its warnings are about invalid requests and WebSockets, one line each.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        # forward_auth also checks WebSocket requests, and needs a plain response.
        ws="none",
        http="h11",
        timeout_graceful_shutdown=1,
    )
    return 0


def _state(options: argparse.Namespace) -> LoginState:
    # Any client that can connect can set these headers; only on loopback are they Caddy's.
    if not _loopback(options.host):
        raise LoginError(f"--host {options.host}: must be a loopback address such as 127.0.0.1")
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise LoginError("CREDENTIALS_DIRECTORY: is not set; systemd sets it by LoadCredential=")
    config = load_config(options.config)
    credentials = load_credentials(Path(folder), config.consumers)
    state_folder = options.state or os.environ.get("STATE_DIRECTORY")
    if not state_folder:
        logging.warning("no --state: every start of the login signs everyone out")
    ended = EndedSessions(Path(state_folder) / "sessions.json" if state_folder else None)
    return make_state(config, credentials, ended)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hearth_login", description="The house's login.")
    parser.add_argument("--config", type=Path, required=True, help="sites and consumers, as JSON")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=9180)
    parser.add_argument("--state", help="folder for signed-out sessions (default $STATE_DIRECTORY)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

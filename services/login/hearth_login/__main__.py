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
from .config import load_config
from .credentials import load_credentials
from .errors import LoginError
from .house import House, make_house
from .ledger import Ledger


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; 2 and one line on stderr when the house is not ready for it."""
    options = _options(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        house = _house(options)
    except LoginError as error:
        print(f"hearth-login: {error}", file=sys.stderr)
        return 2
    logging.info("guards %s", ", ".join(sorted(house.config.sites)) or "nothing")
    uvicorn.run(
        make_app(house),
        host=options.host,
        port=options.port,
        log_config=None,
        # Its warnings are strangers' garbage and WebSockets, one line each.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        # forward_auth asks about WebSockets too, and wants a plain answer.
        ws="none",
        http="h11",
        timeout_graceful_shutdown=1,
    )
    return 0


def _house(options: argparse.Namespace) -> House:
    # Whoever can connect can say who it is: these headers are Caddy's word only on loopback.
    if not _loopback(options.host):
        raise LoginError(f"--host {options.host}: must be a loopback address such as 127.0.0.1")
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise LoginError("CREDENTIALS_DIRECTORY: is not set; systemd sets it by LoadCredential=")
    config = load_config(options.config)
    credentials = load_credentials(Path(folder), config.consumers)
    state = options.state or os.environ.get("STATE_DIRECTORY")
    if not state:
        logging.warning("no --state: every start of the login signs everybody out")
    return make_house(config, credentials, Ledger(Path(state) / "sessions.json" if state else None))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hearth_login", description="The house's login.")
    parser.add_argument("--config", type=Path, required=True, help="what to guard, as JSON")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=9180)
    parser.add_argument("--state", help="folder for signed-out sessions (default $STATE_DIRECTORY)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

"""Serve the broker: `python3 -m hearth_broker --config /etc/hearth/broker.json`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from hearth.approvals import ApprovalError
from hearth.doctor.watch import WatchError, read_house

from . import change_verbs, free_verbs, pages, sandbox_verbs
from .app import create_app
from .config import BrokerError, load_config


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    parser = argparse.ArgumentParser(prog="hearth_broker", description="Verbs for agents.")
    parser.add_argument("--config", type=Path, required=True, help="consumers and places, as JSON")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9185)
    options = parser.parse_args(argv)
    try:
        config = load_config(options.config)
        house = read_house(config.house)
        modules = (free_verbs, sandbox_verbs, change_verbs)
        verbs = [verb for module in modules for verb in module.verbs(house, config)]
        app = create_app(config, house, verbs, pages.routes(config))
        pages.resume(config)
    except (ApprovalError, BrokerError, WatchError) as error:
        print(f"hearth-broker: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"hearth-broker: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    uvicorn.Server(
        uvicorn.Config(
            app,
            host=options.host,
            port=options.port,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http="h11",
            ws="none",
            limit_concurrency=300,
            timeout_keep_alive=130,
            timeout_graceful_shutdown=5,
        )
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Serve the broker: `python3 -m hearth_broker --config /etc/hearth/broker.json`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth.approvals import ApprovalError
from hearth_serving.application import AppState
from hearth_serving.errors import ServiceError
from hearth_serving.server import listen, make_server

from . import change_verbs, free_verbs, pages, sandbox_verbs
from .app import LIMITS, create_app
from .config import BrokerError, load_config, read_house

_MODULES = (free_verbs, sandbox_verbs, change_verbs)


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
        verbs = [one for module in _MODULES for one in module.verbs(house, config)]
        app = create_app(config, house, verbs, pages.routes(config))
        listener = listen(options.host, options.port, LIMITS)
        for id_ in pages.resume(config):
            print(f"taken up: proposal {id_}", file=sys.stderr, flush=True)
    except (ApprovalError, BrokerError, ServiceError) as error:
        print(f"hearth-broker: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"hearth-broker: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    make_server(app, AppState(limits=LIMITS)).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())

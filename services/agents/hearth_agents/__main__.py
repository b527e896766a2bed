"""Serve the agents: `python3 -m hearth_agents --config FILE --port 9100`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth_agents.config import load_config, read_secret
from hearth_serving.command import configure_logging, state_folder
from hearth_serving.errors import ServiceError

LITELLM_KEY, BROKER_KEY = "litellm_key", "broker_key"
"""The credentials of the unit."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    parser = argparse.ArgumentParser(prog="hearth_agents", description="The team of agents.")
    parser.add_argument("--config", type=Path, required=True, help="the team, as JSON")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--state", type=Path, default=state_folder("hearth-agents"))
    own = "folder with agents of one's own, *.py (default: agents/ beside the configuration)"
    parser.add_argument("--own", type=Path, help=own)
    options = parser.parse_args(argv)
    configure_logging()
    try:
        config = load_config(options.config)
        keys = read_secret(LITELLM_KEY), read_secret(BROKER_KEY)
        options.state.mkdir(parents=True, exist_ok=True)
        folder = options.own or options.config.parent / "agents"
        # Imported late: the SDK takes two seconds, which a wrong file need not wait for.
        from hearth_agents.app import make_app
        from hearth_serving.server import run

        state, app = make_app(config, *keys, options.state, folder)
        run(state, options.host, options.port, lambda _: app, lambda: True)
    except ServiceError as error:
        print(f"hearth-agents: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

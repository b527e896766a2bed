"""Serve calls: `python3 -m hearth_voice --config FILE --port 9200`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hearth_serving.command import configure_logging, read_key, warn_if_open
from hearth_serving.errors import ServiceError
from hearth_serving.server import run
from hearth_voice.config import LITELLM_KEY, load_config, read_secret

_KEY_VARIABLE = "HEARTH_VOICE_KEY"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2 with one line on stderr if the setup is not valid."""
    parser = argparse.ArgumentParser(prog="hearth_voice", description="Realtime voice calls.")
    parser.add_argument("--config", type=Path, required=True, help="the parts, as JSON")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9200)
    parser.add_argument("--key-file", type=Path, help="require this key of every client")
    options = parser.parse_args(argv)
    configure_logging()
    try:
        config, litellm_key = load_config(options.config), read_secret(LITELLM_KEY)
        key = read_key(options.key_file, _KEY_VARIABLE)
        warn_if_open(options.host, key, _KEY_VARIABLE)
        from hearth_voice.app import make_app

        state, app = make_app(config, litellm_key, key)
        run(state, options.host, options.port, lambda _: app, lambda: True)
    except ServiceError as error:
        print(f"hearth-voice: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

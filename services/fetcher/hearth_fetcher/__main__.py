"""The command `hearth-fetcher`: it reads the options and runs the server."""

import argparse
import sys
from collections.abc import Sequence
from ipaddress import IPv4Network

from hearth_fetcher.addresses import Guard
from hearth_fetcher.app import FetcherState, make_app
from hearth_fetcher.connecting import Resolver
from hearth_fetcher.fetching import Fetcher
from hearth_fetcher.limits import Limits
from hearth_serving.command import configure_logging
from hearth_serving.errors import ServiceError
from hearth_serving.server import run


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 2, with one line on stderr, when the server cannot start."""
    options = _options(argv)
    configure_logging()
    limits = Limits()
    guard = Guard(Resolver(limits.at_once), tuple(options.closed), frozenset(options.open_name))
    try:
        state = FetcherState(limits=limits, fetcher=Fetcher(guard, limits))
        run(state, options.host, options.port, lambda fail: make_app(state, fail), lambda: True)
    except ServiceError as error:
        print(f"hearth-fetcher: {error}", file=sys.stderr)
        return 2
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="hearth-fetcher",
        description="Fetches one public page at a time, and returns its text.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="default %(default)s; it checks no keys")
    add("--port", type=int, default=9400, help="default %(default)s")
    add("--closed", type=IPv4Network, action="append", default=[], metavar="NETWORK",
        help="a network of the house or its LAN, even if its addresses are public")  # fmt: skip
    add("--open-name", action="append", default=[], metavar="NAME",
        help="a host name that may have a private address")  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

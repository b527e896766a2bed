"""`python -m tests.mock_upstreams names | prepare | serve`: the command line."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import fcntl
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.mock_upstreams import (
    MockUpstreamsError,
    certificates,
    kokoro,
    names,
    ollama_archive,
    registry,
    server,
    whisper,
)

DEFAULT_CACHE = Path("/var/cache/hearth-lab/mock_upstreams")


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; a failure is one line and exit code 1."""
    options = _parser().parse_args(arguments)
    try:
        if options.verb == "names":
            print("\n".join(names.ALL))
        elif options.verb == "prepare":
            prepare(options.cache)
        else:
            asyncio.run(server.serve(_server_options(options)))
    except MockUpstreamsError as error:
        print(f"mock upstreams: {error}", file=sys.stderr)
        return 1
    return 0


def prepare(cache: Path) -> None:
    """Fill the cache with all files to serve; each step prints its time."""
    now = datetime.datetime.now(datetime.UTC)
    cache.mkdir(parents=True, exist_ok=True)
    # Two labs may be created from one cache at once: the second waits and finds everything done.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _step("certificates", lambda: certificates.prepare(cache, now)[0])
        _step("docker-registry", lambda: registry.program(cache))
        _step("Kokoro's weights", lambda: kokoro.prepare(cache))
        for name in server.WHISPER:
            _step(f"Whisper's weights, {name}", partial(whisper.prepare, cache, name))
        _step(f"Ollama {ollama_archive.VERSION}", lambda: ollama_archive.build(cache))
        _step("models", lambda: registry.fill(cache, lambda line: print(f"  {line}", flush=True)))
    print(f"the lab must trust {certificates.authority_path(cache)}")


def _step(name: str, work: Callable[[], Path]) -> None:
    """Run one step and print its result and duration."""
    started = time.monotonic()
    made = work()
    print(f"{name}: {time.monotonic() - started:.1f} s, {made}", flush=True)


def _server_options(options: argparse.Namespace) -> server.Options:
    return server.Options(
        cache=options.cache,
        address=options.address,
        port=options.port,
        control_port=options.control_port,
        scripted_port=options.scripted_port,
        rate_bytes_per_s=options.rate_bytes_per_s,
    )


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the three verbs."""
    parser = argparse.ArgumentParser(prog="python -m tests.mock_upstreams", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("names", help="print the simulated host names")
    cached = argparse.ArgumentParser(add_help=False)
    cached.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    verbs.add_parser("prepare", parents=[cached], help="build all files to serve in the cache")
    serve = verbs.add_parser("serve", parents=[cached], help="serve until SIGTERM")
    serve.add_argument("--address", required=True, help="outer end of the lab's link, 10.99.0.1")
    serve.add_argument("--port", type=int, default=443)
    serve.add_argument("--control-port", type=int, help="loopback port for faults and requests")
    serve.add_argument("--scripted-port", type=int, help="port of the scripted model, plain HTTP")
    serve.add_argument("--rate-bytes-per-s", type=int, default=0, help="0 is unlimited")
    return parser


if __name__ == "__main__":
    sys.exit(main())

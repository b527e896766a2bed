"""Run gates, unit tests, tests with models, and the lab; what scripts/test calls.

Without options: the core of it, for a developer or a stranger. `--all` runs everything that CI
runs; `--long` runs the tests marked long, with models and in a house; `--within N` starts no part
that cannot end within N minutes.

scripts/test runs this module first, with Debian's Python alone: a wrong option or a machine that is
too small is reported in the first second.
"""

import argparse
import os
import shutil
import socket
import sys
from pathlib import Path

# A house in a lab machine needs this much of the machine around it.
DISK_BYTES, MEMORY_BYTES = 30 << 30, 8 << 30
LAB_PORT = 3142


def read_options() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; the parts that it selects are true."""
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__)
    tiers = parser.add_mutually_exclusive_group()
    tiers.add_argument("--all", action="store_true", help="everything that CI runs")
    tiers.add_argument("--long", action="store_true", help="only tests that take many minutes")
    parser.add_argument("--within", type=float, metavar="MIN", help="minutes for the whole run")
    for name in ("gates", "unit", "model", "lab"):
        parser.add_argument(f"--{name}", action="store_true", help=f"only the {name} tests")
    parser.add_argument("-k", metavar="TEXT", help="only tests whose names hold it, as for pytest")
    parser.add_argument(
        "--sweep", type=int, metavar="N", help="only this: kill N runs (see tests/kill/sweep.py)"
    )
    parser.add_argument("--clean", action="store_true", help="remove what tests left here")
    args, more = parser.parse_known_args()
    if more and not args.sweep:
        parser.error(f"unknown: {' '.join(more)}")
    parts = args.gates or args.unit or args.model or args.lab or args.long
    # With a part, -k chooses among its tests; alone, it means unit tests.
    args.unit = args.unit or bool(args.k and not parts)
    args.core = not (parts or args.unit)
    # Without a part, --long means the models' and the house's; with -k, a house's.
    every_long = args.long and not (args.model or args.lab)
    args.model = args.model or (every_long and not args.k) or args.core
    args.lab = args.lab or every_long or args.core
    if args.lab and not args.sweep and (problems := lab_preflight()):
        print(*(f"error: {line}" for line in problems), sep="\n", file=sys.stderr)
        sys.exit(2)
    return args, more


def lab_preflight() -> list[str]:
    """Return why no house can be tested here, one line each; takes no time."""
    found = []
    if os.geteuid() != 0:
        found.append("the lab needs root: run `sudo scripts/test`, or only `scripts/test --unit`")
    lab = Path("/var/lib")
    free = shutil.disk_usage(lab).free
    if free < DISK_BYTES:
        found.append(f"{lab} has {free >> 30} GiB free; the lab needs {DISK_BYTES >> 30} GiB")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < MEMORY_BYTES:
        found.append(f"{memory >> 30} GiB of memory; the lab needs {MEMORY_BYTES >> 30} GiB")
    if not Path("/var/lib/hearth-lab").exists():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", LAB_PORT))
            except OSError:
                found.append(f"port {LAB_PORT} is in use; the lab's package cache needs it")
    return found


if __name__ == "__main__":
    read_options()

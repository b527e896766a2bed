"""Whether a house can be built on this machine, or only in a lab machine on it.

`scripts/up` runs this before it installs anything, so it uses only Python's standard library.
"""

import os
import platform
import re
import sys
from pathlib import Path

# This folder exists where systemd is process 1.
_BOOTED = Path("/run/systemd/system")
_HOUSE = "13"
_INVENTORY = Path(__file__).parents[2] / "inventory"
# A remote house is built by its own machine, so this one may be any.
_REMOTE = re.compile(r"\breach:\s*[\"']?ssh://")


class PreflightError(Exception):
    """One line for a person: why no house can be built here, and what to do instead."""


def needs_lab() -> bool:
    """Return whether a house needs a lab machine here."""
    return not _BOOTED.is_dir()


def check() -> None:
    """Raise `PreflightError` where no house can be built on this machine."""
    release = platform.freedesktop_os_release()
    named = release.get("PRETTY_NAME", "this system")
    if release.get("ID") != "debian" or release.get("VERSION_ID") != _HOUSE:
        raise PreflightError(
            f"this machine runs {named}; a house needs Debian {_HOUSE}: use such a machine, name "
            "one with `reach: ssh://user@host` in inventory/local/machines.yml, or try "
            "`scripts/up --lab`"
        )
    if os.geteuid() != 0:
        raise PreflightError("only root can build a house: put `sudo` before the command")


def _builds_here(options: list[str]) -> bool:
    """Return whether `scripts/up` with these options builds a house on this machine."""
    if needs_lab() or {"-h", "--help", "--lab"} & {*options}:
        return False
    written = (_INVENTORY / "machines.yml", _INVENTORY / "local" / "machines.yml")
    return not any(_REMOTE.search(path.read_text("utf-8")) for path in written if path.is_file())


def main(options: list[str]) -> int:
    """Print in one line why no house can be built here, and return 1; else return 0."""
    try:
        if _builds_here(options):
            check()
    except PreflightError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

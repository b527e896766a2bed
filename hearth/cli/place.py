"""Where a house can be built: on this machine, or in a lab machine on it.

`scripts/up` asks before it installs anything, so there is Python's standard library only.
"""

import os
import platform
import re
import sys
from pathlib import Path

# systemd's own way of saying that it is pid 1.
_BOOTED = Path("/run/systemd/system")
_HOUSE = "13"
_INVENTORY = Path(__file__).parents[2] / "inventory"
# Where the house lives on another machine, this one only brings the project there.
_AFAR = re.compile(r"\breach:\s*[\"']?ssh://")


class PlaceError(Exception):
    """One line for a person: why no house can be built here, and what to do instead."""


def needs_lab() -> bool:
    """Say whether no house can live on this machine itself."""
    return not _BOOTED.is_dir()


def check() -> None:
    """Raise `PlaceError` where no house can be built on this machine."""
    release = platform.freedesktop_os_release()
    named = release.get("PRETTY_NAME", "this system")
    if release.get("ID") != "debian" or release.get("VERSION_ID") != _HOUSE:
        raise PlaceError(
            f"this machine runs {named}; a house needs Debian {_HOUSE}: use such a machine, name "
            "one by `reach: ssh://user@host` in inventory/local/machines.yml, or try "
            "`scripts/up --lab`"
        )
    if os.geteuid() != 0:
        raise PlaceError("a house is built by root: say `sudo` before the command")


def _builds_here(words: list[str]) -> bool:
    """Say whether these words of `scripts/up` build a house on this machine itself."""
    if needs_lab() or {"-h", "--help", "--lab"} & {*words}:
        return False
    written = (_INVENTORY / "machines.yml", _INVENTORY / "local" / "machines.yml")
    return not any(_AFAR.search(path.read_text("utf-8")) for path in written if path.is_file())


def main(words: list[str]) -> int:
    """Say in one line why no house can be built here; return 1 then."""
    try:
        if _builds_here(words):
            check()
    except PlaceError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

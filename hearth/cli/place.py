"""Where a house can be built: on this machine, or in a lab machine on it."""

import os
import platform
from pathlib import Path

# systemd's own way of saying that it is pid 1.
_BOOTED = Path("/run/systemd/system")
_HOUSE = "13"


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

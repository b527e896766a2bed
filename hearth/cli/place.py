"""Where a house can be built: on this machine, or in a lab machine on it."""

import os
import platform
from pathlib import Path

from hearth.catalogue import House

# systemd's own way of saying that it is pid 1.
_BOOTED = Path("/run/systemd/system")
_CONTROLLERS = ("12", "13")
_HOUSE = "13"


class PlaceError(Exception):
    """One line for a person: why no house can be built here, and what to do instead."""


def needs_lab() -> bool:
    """Say whether no house can live on this machine itself."""
    return not _BOOTED.is_dir()


def check(house: House) -> None:
    """Raise `PlaceError` where the house cannot be built from here."""
    release = platform.freedesktop_os_release()
    version = release.get("VERSION_ID", "")
    named = release.get("PRETTY_NAME", "this system")
    far = house.machine.reach != "local"
    if release.get("ID") != "debian" or version not in (_CONTROLLERS if far else (_HOUSE,)):
        raise PlaceError(
            f"this machine runs {named}; a house needs Debian {_HOUSE}: use such a machine, name "
            "one by `reach: ssh://user@host` in inventory/local/machines.yml, or try "
            "`scripts/up --lab`"
        )
    if os.geteuid() != 0 and not far:
        raise PlaceError("a house is built by root: say `sudo` before the command")

"""Debian packages on the outer machine: installed when missing, and exactly these purged again."""

from __future__ import annotations

import contextlib
import pwd
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab_machine.command import call
from tests.lab_machine.steps import remark, step

# The command that each package provides; an existing program needs no package.
WANTED = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "nftables": "nft",
    "btrfs-progs": "mkfs.btrfs",
    "dnsmasq-base": "dnsmasq",
    "apt-cacher-ng": "apt-cacher-ng",
    "iproute2": "ip",
}
_POLICY = Path("/usr/sbin/policy-rc.d")
_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-qq")


@dataclass(frozen=True, slots=True)
class Installed:
    """Packages and system users that an installation added."""

    packages: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


def missing() -> list[str]:
    """Packages whose program is missing."""
    search = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return [name for name, program in WANTED.items() if not shutil.which(program, path=search)]


def install(wanted: Iterable[str]) -> Installed:
    """Install packages without starting their services; return everything that was added."""
    names = list(wanted)
    packages, users = _packages(), _users()
    with step(f"Install {', '.join(names)}"), _services_asleep():
        call([*_APT, "update"], timeout_s=300)
        call([*_APT, "install", "--no-install-recommends", *names], timeout_s=600)
    return Installed(tuple(sorted(_packages() - packages)), tuple(sorted(_users() - users)))


def purge(installed: Installed) -> None:
    """Purge the packages that `install` added, unless another package depends on them now."""
    present = sorted(set(installed.packages) & _packages())
    if present:
        rehearsal = call([*_APT, "--simulate", "purge", *present], timeout_s=120).stdout
        others = removals(rehearsal) - set(present)
        if others:
            remark(f"kept {', '.join(present)}: {', '.join(sorted(others))} depends on them")
            return
        with step(f"Purge {', '.join(present)}"):
            call([*_APT, "purge", *present], timeout_s=300)
    # Packages leave their system users behind when they are purged.
    for user in sorted(set(installed.users) & _users()):
        call(["userdel", user], check=False)


def removals(rehearsal: str) -> set[str]:
    """Packages that `apt-get --simulate` would remove."""
    rows = (line.split() for line in rehearsal.splitlines())
    return {row[1] for row in rows if len(row) > 1 and row[0] in ("Remv", "Purg")}


def _packages() -> set[str]:
    listing = call(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package}\n"]).stdout
    return {line[3:] for line in listing.splitlines() if line.startswith("ii")}


def _users() -> set[str]:
    return {entry.pw_name for entry in pwd.getpwall()}


@contextlib.contextmanager
def _services_asleep() -> Iterator[None]:
    # Debian starts installed services; the lab runs its own resolver and cache on its own links.
    mine = not _POLICY.exists()
    if mine:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        if mine:
            _POLICY.unlink()
    if Path("/run/systemd/system").is_dir():
        # Otherwise it would take the lab's port at the next boot.
        call(["systemctl", "disable", "apt-cacher-ng.service"], check=False)

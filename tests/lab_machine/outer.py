"""The lab's changes on the outer machine: printed, recorded, and undone in full."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.lab_machine import base, boot, disk, links, package_cache, packages
from tests.lab_machine.model import CACHE, OUTER, STATE, load_all, write_json
from tests.lab_machine.packages import Installed
from tests.lab_machine.steps import remark

# Routing for the labs' egress; and the systemd instances of one machine exhaust the default of
# 128 inotify instances, which cannot be raised from inside ("Too many open files").
SYSCTLS = {"net/ipv4/ip_forward": 1, "fs/inotify/max_user_instances": 8192}
_RECORD = OUTER / "changes.json"


@dataclass(slots=True)
class Changes:
    """The changes and, for sysctls, the earlier values."""

    packages: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    sysctls: dict[str, int] = field(default_factory=dict)


def changes() -> Changes:
    """The changes that labs have made on this machine so far."""
    return Changes(**json.loads(_RECORD.read_text())) if _RECORD.exists() else Changes()


def ensure() -> str:
    """Prepare the outer machine for labs and return the package cache's local address."""
    made = changes()
    wanted = packages.missing()
    if wanted:
        fresh = packages.install(wanted)
        made.packages = sorted({*made.packages, *fresh.packages})
        made.users = sorted({*made.users, *fresh.users})
        write_json(_RECORD, asdict(made))
        remark(f"outer machine: installed {', '.join(fresh.packages)}")
    for name, value in SYSCTLS.items():
        _raise(name, value, made)
    refresh()
    package_cache.ensure()
    return f"http://127.0.0.1:{links.CACHE_PORT}"


def refresh() -> None:
    """Load the nftables table for the existing machines."""
    links.load_rules(load_all())


def undo(*, keep_packages: bool, keep_cache: bool) -> None:
    """Restore the outer machine to its state before the first lab."""
    made = changes()
    package_cache.stop()
    if shutil.which("nft"):
        links.drop_rules()
    for name, value in made.sysctls.items():
        _sysctl(name).write_text(f"{value}\n")
        remark(f"outer machine: {name.replace('/', '.')} back to {value}")
    if keep_packages and made.packages:
        remark(f"kept on request: {', '.join(made.packages)}")
    elif made.packages:
        packages.purge(Installed(tuple(made.packages), tuple(made.users)))
    if keep_cache:
        remark(f"kept on request: {CACHE}")
    else:
        base.forget_all()
    boot.forget_folders()
    disk.erase(STATE)
    if keep_packages and made.packages:
        # The next removal knows them still.
        write_json(_RECORD, asdict(Changes(made.packages, made.users)))


def _raise(name: str, wanted: int, made: Changes) -> None:
    value = int(_sysctl(name).read_text())
    if value >= wanted:
        return
    # Record first: a kill in between must not lose the old value.
    made.sysctls.setdefault(name, value)
    write_json(_RECORD, asdict(made))
    _sysctl(name).write_text(f"{wanted}\n")
    remark(f"outer machine: {name.replace('/', '.')} {value} -> {wanted}")


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name

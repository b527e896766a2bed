"""The data of a lab machine: its name, link, folders, and its record on disk."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab_machine.command import LabError

STATE = Path("/var/lib/hearth-lab")
CACHE = Path("/var/cache/hearth-lab")
OUTER = STATE / ".outer"

# The kernel allows 15 characters for an interface; nspawn's is `vb-NAME`.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,10}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SIZE = re.compile(r"(\d+)\s*(M|G|T)(i?B)?", re.IGNORECASE)
_UNITS = {"M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True)
class Machine:
    """One lab machine as recorded in its `machine.json`."""

    name: str
    net: int
    host: int
    size_bytes: int
    house: str | None = None
    memory_bytes: int | None = None
    ready: bool = False
    started: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Its IPv4 address on the lab's LAN."""
        return f"10.99.{self.net}.{self.host}"

    @property
    def outer_address(self) -> str:
        """The outer end of its link: address of resolver, package cache and mock upstreams."""
        return f"10.99.{self.net}.1"

    @property
    def resolver(self) -> str:
        """Address of its resolver: the outer end for a house, the house for a guest."""
        return f"10.99.{self.net}.10" if self.house else self.outer_address

    @property
    def bridge(self) -> str:
        """The bridge of its LAN."""
        return f"hl-{self.house or self.name}"

    @property
    def folder(self) -> Path:
        """Its folder under the lab's state."""
        return STATE / self.name

    @property
    def disk(self) -> Path:
        """The sparse file of its disk."""
        return self.folder / "disk.btrfs"

    @property
    def mount(self) -> Path:
        """Where its disk is mounted while it exists."""
        return self.folder / "mount"

    @property
    def root(self) -> Path:
        """Its root file system."""
        return self.mount / "root"


def check_name(name: str) -> str:
    """Return the name of a machine if it is valid."""
    if not _NAME.fullmatch(name):
        raise LabError(
            f"lab machine {name!r}: write 1 to 11 lower-case letters, digits or hyphens, "
            "beginning with a letter"
        )
    return name


def check_tag(tag: str) -> str:
    """Return the name of a saved state if it is valid."""
    if not _TAG.fullmatch(tag):
        raise LabError(f"tag {tag!r}: write letters, digits, dots, hyphens, underscores")
    return tag


def parse_size(text: str) -> int:
    """Bytes of `24GB`, `24GiB` or `24G`; a lab's sizes count in powers of two."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise LabError(f"size {text!r}: write a number with M, G or T, such as 24G")
    return int(match[1]) * _UNITS[match[2].upper()]


def allot(
    machines: Iterable[Machine], house: str | None, busy: Set[int] = frozenset()
) -> tuple[int, int]:
    """The first free (net, host): a house gets its own LAN, a guest an address in its house's.

    `busy` are networks that the outer machine has for other reasons: it may be a lab machine too.
    """
    known = list(machines)
    if house is None:
        taken = {machine.net for machine in known} | busy
        net = next((n for n in range(1, 255) if n not in taken), None)
        if net is None:
            raise LabError("all 254 lab networks are taken; destroy a lab machine first")
        return net, 10
    hosts = {machine.host for machine in known if house in (machine.name, machine.house)}
    if not hosts:
        raise LabError(f"lab machine {house!r} does not exist; create it before its guests")
    net = next(machine.net for machine in known if machine.name == house)
    host = next((h for h in range(20, 255) if h not in hosts), None)
    if host is None:
        raise LabError(f"{house} has no room for another guest")
    return net, host


def load(name: str) -> Machine:
    """The record of one machine; `LabError` when there is none."""
    path = STATE / check_name(name) / "machine.json"
    try:
        return Machine(**json.loads(path.read_text()))
    except FileNotFoundError:
        raise LabError(
            f"lab machine {name!r} does not exist; see `hearth lab list`, or create it"
        ) from None
    except (ValueError, TypeError):
        raise LabError(f"{path}: unreadable; run `hearth lab destroy {name}`") from None


def load_all() -> list[Machine]:
    """Every machine with a readable record, by name."""
    names = sorted(path.parent.name for path in STATE.glob("[a-z]*/machine.json"))
    found = []
    for name in names:
        try:
            found.append(load(name))
        except LabError:  # a record cut short by a kill: create and destroy clean it by its name
            continue
    return found


def store(machine: Machine, **changes: object) -> Machine:
    """Write the record of a machine atomically, and return it."""
    changed = dataclasses.replace(machine, **changes)  # type: ignore[arg-type]
    write_json(changed.folder / "machine.json", dataclasses.asdict(changed))
    return changed


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically; create its folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(value, indent=1) + "\n")
    fresh.replace(path)


@contextmanager
def locked() -> Iterator[None]:
    """Let one process at a time change what all lab machines share."""
    # The folder itself is locked: a lock file would be left behind by the last destroy.
    while True:
        STATE.mkdir(parents=True, exist_ok=True)
        handle = os.open(STATE, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not STATE.exists() or os.fstat(handle).st_ino != STATE.stat().st_ino:
                continue  # the last machine was destroyed while we waited
            yield
            return
        finally:
            os.close(handle)

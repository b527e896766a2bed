"""Which version each service and part runs: its package's, its program's, or what it reports.

Nothing is run in an instance; its files are read from outside. It is read when a program has
started, and otherwise a few times a day.
"""

import contextlib
import importlib.metadata
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import hearth
from hearth.catalogue.house import House, Part, Service
from hearth.clients import ClientError
from hearth.clients.endpoints import get_json, one_line
from hearth.machine import outside
from hearth.paths import PROGRAMS
from hearth.status import Row

_FETCH_S, _QUERY_S, _AGAIN_S = 2.0, 10, 6 * 3600.0
_LISTS, _STATUS = "/var/lib/dpkg/info", "/var/lib/dpkg/status"
# Of a program: how much of the digest of its files tells two apart for a person.
_DIGEST = 8

ReadFile = Callable[[str | None, str], bytes]


class Versions:
    """The versions of a house's programs; `read` costs little while none has started again."""

    def __init__(self, house: House, rows: Callable[[], Iterable[Row]]) -> None:
        self._house, self._rows = house, rows
        self._state: object = None
        self._known: dict[str, str] = {}

    def read(self) -> dict[str, str]:
        """Return the version of each service and part, as far as it shows."""
        started = tuple((row.name, row.since) for row in self._rows())
        state = (started, time.monotonic() // _AGAIN_S)
        if state != self._state:
            owners: list[Service | Part] = [
                *self._house.services.values(),
                *self._house.parts.values(),
            ]
            found = {one.name: _known(one) for one in owners}
            self._known = {name: version for name, version in found.items() if version}
            self._state = state
        return self._known


def _known(owner: Service | Part) -> str:
    try:
        return version_of(owner)
    except Exception:  # whatever is in its files, the others have versions
        return ""


def shown(house: House, read: Mapping[str, str], measured: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of every row: what was read, or the last receipt has, or the project's.

    One of a server that somebody else manages is not the project's.
    """
    known = measured.get("versions") or {}
    owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
    named = {one.name: one_line(known.get(one.name) or known.get(one.role) or "") for one in owners}
    foreign = {one.name for one in house.services.values() if one.runtime == "external"}
    own = {name: "" if name in foreign else hearth.__version__ for name in named}
    return {name: read.get(name) or named[name] or own[name] for name in named}


def version_of(
    owner: Service | Part, read: ReadFile = outside.read_file, programs: Path = PROGRAMS
) -> str:
    """Return the version of what runs, empty where nothing names one."""
    current = programs / owner.name / "current"
    if package := _distribution(current, owner.name):
        return package
    if isinstance(owner, Service):
        with contextlib.suppress(ClientError, ValueError, TypeError, KeyError):
            return one_line(get_json(f"{owner.url}{owner.health.path}", _FETCH_S)["version"])
    if current.is_symlink():
        return f"{hearth.__version__} ({current.resolve().name[:_DIGEST]})"
    instance = owner.instance if isinstance(owner, Service) else None
    program = _program(instance, owner.unit)
    if not program or "/python" in program:
        return ""
    if isinstance(owner, Service):
        return _package_there(owner, program, read)
    return _package_here(program)


def _distribution(folder: Path, name: str) -> str:
    """Return the version of a program's Python package that is named like its service."""
    found = importlib.metadata.distributions(name=name, path=[str(folder)])
    return next((one_line(one.version) for one in found), "")


def _program(instance: str | None, unit: str) -> str:
    """Return the path of what a unit runs, as its instance sees it; empty if nothing runs."""
    with contextlib.suppress(OSError, IndexError):
        return os.readlink(f"/proc/{outside.processes(instance, unit).pids[0]}/exe")
    return ""


def _package_there(service: Service, program: str, read: ReadFile) -> str:
    """Return the version of that Debian package of an instance that holds a program."""
    for package in service.packages:
        with contextlib.suppress(OSError):
            files = read(service.instance, f"{_LISTS}/{package}.list").decode(errors="replace")
            if program in files.splitlines():
                status = read(service.instance, _STATUS).decode(errors="replace")
                stanza = rf"^Package: {re.escape(package)}\n(?:.+\n)*?Version: (\S+)"
                found = re.search(stanza, status, re.MULTILINE)
                return one_line(found[1]) if found else ""
    return ""


def _package_here(program: str) -> str:
    """Return the version of that Debian package of the machine that holds a program."""
    owner = _query("--search", program).partition(": ")[0]
    return one_line(_query("--show", "--showformat=${Version}", owner)) if owner else ""


def _query(*argv: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, and the path of a program that runs
            ["/usr/bin/dpkg-query", *argv],
            capture_output=True,
            text=True,
            check=False,  # a program of another origin belongs to no package
            timeout=_QUERY_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if not done.returncode else ""

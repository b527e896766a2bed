"""Look and try from inside an instance, or from the machine itself."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pylxd
import testinfra
import testinfra.backend
from testinfra.backend.base import BaseBackend, CommandResult

from hearth.machine import engine, probe
from hearth.machine.engine import SOCKET
from hearth.smoke import confined, loaded

_COMMAND_S = 60


class IncusBackend(BaseBackend):  # type: ignore[misc]
    """testinfra's way into an Incus instance: it has none of its own."""

    NAME = "incus"

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run one shell line as root."""
        line = self.get_command(command, *args)
        done = engine.execute(self.hostname, ["/bin/sh", "-c", line], timeout=_COMMAND_S)
        return self.result(done.returncode, line.encode(), done.stdout, done.stderr)


testinfra.backend.BACKENDS["incus"] = f"{__name__}.IncusBackend"


@functools.cache
def host(instance: str | None) -> Any:
    """Return testinfra's view of an instance, or of the machine itself."""
    return testinfra.get_host(f"incus://{instance}" if instance else "local://")


def incus_says(instance: str) -> Mapping[str, str]:
    """Return what holds for an instance in Incus: its own settings, and those of its profiles."""
    found = pylxd.Client(endpoint=SOCKET).instances.get(instance)
    return {str(key): str(value) for key, value in found.expanded_config.items()}


@dataclass(frozen=True, slots=True)
class Tried:
    """What a connection met; `quick` when nobody has to wait for it."""

    address: str
    port: int
    outcome: str
    seconds: float

    @property
    def quick(self) -> bool:
        """Say whether the answer came within a second."""
        return self.seconds < 1

    def __str__(self) -> str:
        """The attempt in words."""
        return f"{self.address} port {self.port}: {self.outcome} after {self.seconds:g} s"


def connections(
    instance: str | None, targets: list[tuple[str, int]], user: int | None = None
) -> list[Tried]:
    """Try TCP connections from inside, all at once; `user` is who tries on the machine."""
    said = _probe(instance, {"connect": targets}, user)["connect"]
    return [
        Tried(address, port, outcome, seconds)
        for (address, port), (outcome, seconds) in zip(targets, said, strict=True)
    ]


def answers(instance: str | None, server: str, *names: tuple[str, str]) -> list[tuple[int, Any]]:
    """Ask `server` for each (name, type) from inside; return codes and addresses."""
    asked = {"resolve": [(server, name, kind) for name, kind in names]}
    return [(code, found) for code, found in _probe(instance, asked)["resolve"]]


@dataclass(frozen=True, slots=True)
class Confined:
    """What a process of a unit is held to, and what was met by whoever tries from beside it.

    What was tried and met nothing is `done`; everything else is the kernel's word for its refusal.
    """

    status: Mapping[str, str]
    capabilities: Sequence[str]
    user: int
    written: Mapping[str, str]
    marker_seen: bool
    homes: Mapping[str, str]
    own: Mapping[str, str]
    secrets: Mapping[str, str]
    processes: Sequence[str]


def confinement(instance: str | None, unit: str, secrets: Sequence[str]) -> Confined | None:
    """Try from inside a unit's namespaces, as its user; `None` where no process of it lives.

    `secrets` are patterns of files that it has no business with; the credentials of all other
    units are tried in any case.
    """
    program = Path(confined.__file__).read_text(encoding="utf-8")
    asked = {"program": program, "unit": unit, "secrets": list(secrets)}
    said = _ask(instance, ["/usr/bin/python3", "-I", "-c", program], asked)
    if not said["pid"]:
        return None
    return Confined(status=said["status"], capabilities=said["capabilities"], **said["tried"])


@dataclass(frozen=True, slots=True)
class Running:
    """What a unit's living process has loaded: versions, and files that were replaced under it."""

    pid: int
    stale: Sequence[str]
    packages: Mapping[str, str]


def running(instance: str | None, unit: str, packages: Sequence[str]) -> Running:
    """Say which versions of Python packages a unit's process holds, and what of it is stale."""
    program = Path(loaded.__file__).read_text(encoding="utf-8")
    asked = {"unit": unit, "packages": list(packages)}
    return Running(**_ask(instance, ["/usr/bin/python3", "-I", "-c", program], asked))


def units(instance: str | None, unit: str) -> list[str]:
    """Return a unit and its helpers, such as the gate in front of a program."""
    pattern = unit.removesuffix(".service") + "-*.service"
    argv = "systemctl list-units --all --plain --no-legend %s %s"
    return [
        line.split()[0] for line in host(instance).check_output(argv, unit, pattern).splitlines()
    ]


def _probe(instance: str | None, asked: dict[str, Any], user: int | None = None) -> dict[str, Any]:
    program = Path(probe.__file__).read_text(encoding="utf-8")
    argv = ["/usr/bin/python3", "-I", "-c", program]
    if user is not None:
        argv = ["/usr/bin/setpriv", f"--reuid={user}", "--clear-groups", *argv]
    return _ask(instance, argv, asked)


def _ask(instance: str | None, argv: Sequence[str], asked: dict[str, Any]) -> dict[str, Any]:
    done = engine.execute(instance, argv, timeout=_COMMAND_S, stdin=json.dumps(asked))
    if done.returncode:
        raise engine.EngineError(f"{instance or 'this machine'}: the probe failed: {done.stderr}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]

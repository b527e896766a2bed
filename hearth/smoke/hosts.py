"""Access to the house: its sites, and its instances or the machine itself (`None`)."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pylxd
import testinfra
import testinfra.backend
from testinfra.backend.base import BaseBackend, CommandResult

from hearth.catalogue.house import Part, Service
from hearth.clients.edge import Answer, Edge
from hearth.machine import engine, probe
from hearth.smoke import unit_probe

_COMMAND_S, _REQUEST_S = 60, 15


class IncusBackend(BaseBackend):  # type: ignore[misc]
    """testinfra's connection to an Incus instance, which testinfra itself does not have."""

    NAME = "incus"

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run one shell line as root."""
        line = self.get_command(command, *args)
        done = engine.execute(self.hostname, ["/bin/sh", "-c", line], timeout=_COMMAND_S)
        return self.result(done.returncode, line.encode(), done.stdout, done.stderr)


def ask(edge: Edge, fqdn: str, path: str, *wanted: int, **more: Any) -> Answer:
    """Send a request to a site as `Edge.request` does; fail unless the status is a `wanted` one."""
    answer = edge.request(fqdn, path, **({"within_s": _REQUEST_S} | more))
    if answer.status not in (wanted or (200,)):
        # The body of an answer that should not be there may hold a secret.
        body = "" if answer.status < 400 else f": {answer.text[:200]}"
        raise AssertionError(f"{path}: HTTP {answer.status}{body}")
    return answer


testinfra.backend.BACKENDS["incus"] = f"{__name__}.IncusBackend"


@functools.cache
def host(instance: str | None) -> Any:
    """Return testinfra's view of an instance or of the machine."""
    return testinfra.get_host(f"incus://{instance}" if instance else "local://")


def incus_config(instance: str) -> Mapping[str, str]:
    """Return the settings of an instance in Incus, its profiles included."""
    found = pylxd.Client(endpoint=engine.SOCKET).instances.get(instance)
    return {str(key): str(value) for key, value in found.expanded_config.items()}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempted TCP connection and its outcome, as `hearth.machine.probe` names it."""

    address: str
    port: int
    outcome: str
    seconds: float

    @property
    def quick(self) -> bool:
        """Whether the outcome was known within a second."""
        return self.seconds < 1

    def __str__(self) -> str:
        """The attempt in words."""
        return f"{self.address} port {self.port}: {self.outcome} after {self.seconds:g} s"


def connections(
    instance: str | None, targets: list[tuple[str, int]], user: int | None = None
) -> list[Attempt]:
    """Try TCP connections all at once; on the machine, `user` is the user id that tries."""
    argv = [] if user is None else ["/usr/bin/setpriv", f"--reuid={user}", "--clear-groups"]
    found = _send(instance, probe, {"connect": targets}, argv)["connect"]
    return [Attempt(*target, *outcome) for target, outcome in zip(targets, found, strict=True)]


def dns_answers(
    instance: str | None, server: str, *names: tuple[str, str]
) -> list[tuple[int, list[str]]]:
    """Query `server` for each (name, type); return DNS codes and addresses."""
    queries = {"resolve": [(server, name, kind) for name, kind in names]}
    return [(code, found) for code, found in _send(instance, probe, queries)["resolve"]]


def sandbox(instance: str | None, unit: str, secrets: Sequence[str]) -> dict[str, Any] | None:
    """Try what a unit's sandbox forbids (see `unit_probe`); `None` where it has no process.

    `secrets` are path patterns that the unit must not read.
    """
    program = Path(unit_probe.__file__).read_text(encoding="utf-8")
    request = {"task": "sandbox", "program": program, "unit": unit, "secrets": list(secrets)}
    found = _send(instance, unit_probe, request)
    return found if found["pid"] else None


def loaded(instance: str | None, unit: str, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the `packages` that a unit's process has loaded, and its `stale` files."""
    request = {"task": "loaded", "unit": unit, "packages": list(packages)}
    return _send(instance, unit_probe, request)


def units(owner: Service | Part) -> list[tuple[str | None, str]]:
    """Return the instance and the name of a unit and its helpers, such as its sidecar proxy."""
    instance: str | None = getattr(owner, "instance", None)
    pattern = owner.unit.removesuffix(".service") + "-*.service"
    command = "systemctl list-units --all --plain --no-legend %s %s"
    lines = host(instance).check_output(command, owner.unit, pattern).splitlines()
    return [(instance, line.split()[0]) for line in lines]


def _send(
    instance: str | None, program: ModuleType, request: dict[str, Any], prefix: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a whole program there; return the JSON that it prints."""
    text = Path(str(program.__file__)).read_text(encoding="utf-8")
    argv = [*prefix, "/usr/bin/python3", "-I", "-c", text]
    done = engine.execute(instance, argv, timeout=_COMMAND_S, stdin=json.dumps(request))
    if done.returncode:
        raise engine.EngineError(f"{instance or 'this machine'}: the probe failed: {done.stderr}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]

"""Access to the house: its sites, and its instances or the machine itself (`None`)."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pylxd
import testinfra
import testinfra.backend
from testinfra.backend.base import BaseBackend, CommandResult

from hearth.clients.endpoints import Answer, Edge
from hearth.machine import engine, probe
from hearth.paths import FORM
from hearth.smoke import unit_probe
from hearth.smoke.plugin import NotMeasured

_COMMAND_S, _PROGRAM_S, _REQUEST_S = 60, 180, 15


class IncusBackend(BaseBackend):  # type: ignore[misc]
    """testinfra's connection to an Incus instance, which testinfra itself does not have."""

    NAME = "incus"

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run one shell line as root; the tests only look."""
        line = self.get_command(command, *args)
        done = engine.look(self.hostname, ["/bin/sh", "-c", line], timeout=_COMMAND_S)
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


def needs_instances() -> None:
    """Report a test of instances and units as not measured in a house of containers."""
    if FORM:
        raise NotMeasured(
            "not in this form: it looks at units and addresses of instances, and at the machine's "
            "firewall; docs/containers.md says what containers have instead"
        )


@functools.cache
def host(instance: str | None) -> Any:
    """Return testinfra's view of an instance or of the machine."""
    needs_instances()
    return testinfra.get_host(f"incus://{instance}" if instance else "local://")


def incus_config(instance: str) -> Mapping[str, str]:
    """Return the settings of an instance in Incus, its profiles included."""
    needs_instances()
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
        return self.seconds < probe.QUICK_S

    def __str__(self) -> str:
        """The attempt in words."""
        return f"{self.address} port {self.port}: {self.outcome} after {self.seconds:g} s"


def connections(
    instance: str | None,
    targets: Sequence[tuple[str, int]],
    alone: Sequence[tuple[str, int]] = (),
    user: int | None = None,
) -> list[Attempt]:
    """Try TCP connections, all `targets` at once and then those that `probe` tries alone.

    On the machine, `user` is the user id that tries.
    """
    needs_instances()
    argv = [] if user is None else ["/usr/bin/setpriv", f"--reuid={user}", "--clear-groups"]
    request = {"connect": targets, "alone": alone}
    found = engine.run_program(instance, probe, request, timeout=_PROGRAM_S, prefix=argv)
    rows = zip([*targets, *alone], [*found["connect"], *found["alone"]], strict=True)
    return [Attempt(*target, *outcome) for target, outcome in rows]


def dns_answers(
    instance: str | None, server: str, *names: tuple[str, str]
) -> list[tuple[int, list[str]]]:
    """Query `server` for each (name, type); return DNS codes and addresses."""
    needs_instances()
    queries = {"resolve": [(server, name, kind) for name, kind in names]}
    found = engine.run_program(instance, probe, queries, timeout=_PROGRAM_S)
    return [(code, addresses) for code, addresses in found["resolve"]]


def inspection(instance: str | None, request: dict[str, Any]) -> dict[str, Any]:
    """Return what `unit_probe` finds there; `request` is its request without the program."""
    needs_instances()
    text = Path(unit_probe.__file__).read_text(encoding="utf-8")
    request = {**request, "program": text}
    return engine.run_program(instance, unit_probe, request, timeout=_PROGRAM_S)

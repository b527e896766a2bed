"""What a finding is, what the checks examine, and how they are registered."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import httpx

from hearth.catalogue.house import House, Service
from hearth.clients.endpoints import get_json
from hearth.clients.models import Overview
from hearth.machine import engine, outside
from hearth.machine.secrets import Vault
from hearth.status import Row

Severity = Literal["error", "warning"]
_INCUS_S = 3.0


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding, with all that people read about it; its page in docs/ is made of this.

    A `fixable` one can be healed safely by `hearth doctor --fix` and by the page's button.
    """

    name: str
    severity: Severity
    title: str
    means: str
    todo: str
    fixable: bool = False

    @property
    def page(self) -> str:
        """The path of its page on the house's own site."""
        return f"/findings/{self.name}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong now: `about` is a service, part, model or path, or empty for the machine.

    `evidence` is one line with the numbers that were measured. `hits` names what else suffers from
    it, `*` everything: findings about those may be consequences (hearth/doctor/examination.py).
    """

    kind: Kind
    about: str
    evidence: str
    hits: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name under which it is fixed and ignored."""
        return f"{self.kind.name}:{self.about}"

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {
            "key": self.key,
            "name": self.kind.name,
            "about": self.about,
            "severity": self.kind.severity,
            "title": self.kind.title,
            "evidence": self.evidence,
            "means": self.kind.means,
            "todo": self.kind.todo,
            "fixable": self.kind.fixable,
            "page": self.kind.page,
        }


class Execute(Protocol):
    """Runs a command in an instance, or on the machine (None), as `engine.execute` does."""

    def __call__(
        self, instance: str | None, argv: Sequence[str], *, timeout: float
    ) -> engine.Completed:
        """Return its output, whatever its exit code; EngineError when it cannot run."""


def fetch(url: str) -> Any:
    """Return the JSON of a server's answer, within two seconds."""
    return get_json(url, within_s=2)


def ask_incus(path: str) -> Any:
    """Return what Incus answers; without its command, which costs ten times as much.

    Raises:
        HTTPError: it does not answer within three seconds, or with an error.
    """
    transport = httpx.HTTPTransport(uds=engine.SOCKET, verify=False)
    with httpx.Client(transport=transport, timeout=_INCUS_S) as client:
        return client.get(f"http://incus{path}").raise_for_status().json()["metadata"]


@dataclass(frozen=True, slots=True)
class Context:
    """What the checks examine; tests replace the readers.

    `rows` and `models` are of the last look at the house: calls, since a look takes seconds and
    most checks need none. `now` is a Unix time; `root` is another file system in tests.
    """

    house: House
    rows: Callable[[], Sequence[Row]]
    models: Callable[[], Overview]
    now: float
    root: Path = Path("/")
    execute: Execute = engine.execute
    fetch: Callable[[str], Any] = fetch
    incus: Callable[[str], Any] = ask_incus
    vault: Vault | None = None

    def row(self, name: str) -> Row | None:
        """Return the row of one service or part."""
        return next((row for row in self.rows() if row.name == name), None)

    def entered(self) -> list[Service]:
        """Return the services in whose instances commands can be run."""
        there = self.instances()
        return [
            one
            for one in self.house.services.values()
            if there.get(one.name, {}).get("status") == "Running"
            or (one.runtime == "podman" and outside.first_process(one.instance))
        ]

    def instances(self) -> dict[str, dict[str, Any]]:
        """Return each service's instance as Incus has it; httpx.HTTPError if it does not answer."""
        services = [one for one in self.house.services.values() if one.address]
        listed = self.incus("/1.0/instances?recursion=1") if services else ()
        found = {one["name"]: one for one in listed}
        return {one.name: found[one.instance] for one in services if one.instance in found}

    def output(self, instance: str | None, *argv: str, within_s: float = 5) -> str:
        """Return what a command prints; EngineError if it cannot run."""
        return self.execute(instance, argv, timeout=within_s).stdout


@dataclass(frozen=True, slots=True)
class Check:
    """One check: how often the watcher runs it, and how long it may take."""

    name: str
    find: Callable[[Context], Iterable[Finding]]
    every_s: float
    within_s: float


CHECKS: dict[str, Check] = {}
CheckFunction = TypeVar("CheckFunction", bound=Callable[[Context], Iterable[Finding]])


def check(every_s: float, within_s: float = 6.0) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check: the watcher runs it each second where it is cheap, else more seldom."""

    def register(find: CheckFunction) -> CheckFunction:
        name = find.__name__
        if name in CHECKS:
            raise ValueError(f"two checks are named {name}")
        CHECKS[name] = Check(name, find, every_s, within_s)
        return find

    return register

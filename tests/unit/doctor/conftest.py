"""A healthy house for the checks, with readers that a test replaces."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hearth.catalogue import derive, load
from hearth.clients.models import Overview
from hearth.doctor.finding import Context
from hearth.machine.engine import Completed
from hearth.status import Row

INVENTORY = Path(__file__).parents[3] / "inventory"
HOUSE = derive(load(INVENTORY))
ROWS = [
    *(Row(name, "service", True, "up", 0) for name in HOUSE.services),
    *(Row(name, "part", True, "up", 0) for name in HOUSE.parts),
    *(Row(name, "part", True, "up", 0) for name in ("firewall", "connections", "certificates")),
    Row("disk", "part", True, "80.0 GiB free on the disk of /var", 0),
]


def execute(instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
    """Run a command that succeeds and prints nothing."""
    return Completed(0, "", "")


def incus(path: str) -> Any:
    """Return the house's instances, all of them running, without a card."""
    if path == "/1.0":
        return {"api_status": "stable"}
    return [instance(one.instance) for one in HOUSE.services.values()]


def instance(name: str, **more: Any) -> dict[str, Any]:
    """Return one instance as Incus lists it."""
    return {"name": name, "status": "Running", "config": {}, "devices": {}, **more}


def fetch(url: str) -> Mapping[str, Any]:
    """Return an empty document, as a server without anything to report."""
    return {}


@pytest.fixture
def healthy(tmp_path: Path) -> Context:
    """Everything is up, and the machine's file system is empty."""
    return Context(
        house=HOUSE,
        rows=lambda: ROWS,
        models=lambda: Overview({}, {}),
        now=time.time(),
        root=tmp_path,
        execute=execute,
        fetch=fetch,
        incus=incus,
    )

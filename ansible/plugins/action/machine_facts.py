"""Read the machine, and reject one that cannot become this house.

Arguments: `services` (of this machine, as derived from the catalogue), `record` (the machine's;
`auto` values are read from the machine), `packages` (that the machine needs) and `masked` (units
that must not start). Returns `machine` (facts), `accelerators` (service to accelerator) and
`packages` (missing or half-installed ones), and fails with one line for each violation before
anything is changed.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict
from typing import Any, ClassVar

from hearth.catalogue import derive, memory_shortage
from hearth.catalogue.house import Service, from_vars
from hearth.machine.action import HouseAction
from hearth.machine.environment import read_environment
from hearth.machine.facts import FactsError, listeners, read_facts
from hearth.machine.preflight import (
    choose_accelerator,
    house_violations,
    house_warnings,
    machine_violations,
    machine_warnings,
    own_folders,
)
from hearth.project import current

UNFINISHED = ("unpacked", "half-configured", "triggers-awaited", "triggers-pending")


class ActionModule(HouseAction):
    """Return the facts, or every violation at once."""

    arguments: ClassVar = {
        "services": {"type": "dict", "required": True},
        "record": {"type": "dict", "required": True},
        "packages": {"type": "list", "elements": "str", "required": True},
        "masked": {"type": "list", "elements": "str", "required": True},
    }
    errors = (FactsError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Read the machine on which Ansible itself runs."""
        states = {
            **package_states(params["packages"]),
            "unmasked": [unit for unit in params["masked"] if not is_masked(unit)],
        }
        return read(params["services"], params["record"]) | {"packages": states}


def package_states(wanted: list[str]) -> dict[str, list[str]]:
    """Return the packages that are missing, and those that a killed installation left half done."""
    listed = subprocess.run(
        ["/usr/bin/dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    known = [line.split(maxsplit=1) for line in listed.splitlines()]
    here = {name for status, name in known if status == "installed"}
    return {
        "missing": [name for name in wanted if name not in here],
        "unfinished": [name for status, name in known if status in UNFINISHED],
        "halves": [name for status, name in known if status == "half-installed"],
    }


def is_masked(unit: str) -> bool:
    """Whether systemd is kept from starting the unit by itself."""
    try:
        return os.readlink(f"/etc/systemd/system/{unit}") == os.devnull
    except OSError:
        return False


def read(given: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return the task's result."""
    services = {name: from_vars(Service, service) for name, service in given.items()}
    facts = read_facts(record)
    house = derive(current().catalogue())
    environment = read_environment(house, facts, own_folders(house))
    locked_out = environment.nvidia_on_bus and environment.secure_boot
    open_ports = listeners()
    found = machine_violations(services, facts, open_ports, locked_out)
    found += house_violations(house, facts, environment, open_ports)
    shortage = memory_shortage(services.values(), facts.memory_bytes)
    found += [shortage] if shortage else []
    warnings = machine_warnings(services, facts, locked_out)
    warnings = [*warnings, *house_warnings(house, facts, environment)]
    if found:
        return {"failed": True, "msg": "\n".join(found), "warnings": warnings}
    chosen = {name: choose_accelerator(item.gpu, facts.graphics) for name, item in services.items()}
    return {"machine": asdict(facts), "accelerators": chosen, "warnings": warnings}

"""Read the machine, and reject one that cannot become this house.

Arguments: `house` (as derived from the catalogue; `auto` values of its machine are read),
and `packages` (that the machine needs). Returns `machine` (facts), `accelerators` (service to
accelerator), `budget` (of the plan that `hearth plan` stored here, else empty) and `packages`
(missing or half-installed ones, and units of them to mask), and fails with one line for each
violation before anything is changed.
"""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from hearth.catalogue.house import House, from_vars
from hearth.machine.action import HouseAction
from hearth.machine.environment import MASKED, is_masked, read_environment
from hearth.machine.facts import Facts, FactsError, read_facts
from hearth.machine.preflight import choose_accelerator, violations_and_warnings
from hearth.paths import PLAN, RECEIPT_FOLDER
from hearth.plan import PlanError
from hearth.plan.inventory import plan_of_document
from hearth.plan.machine import other_machine
from hearth.plan.runtime import runtime_budget
from hearth.remove import before

UNFINISHED = ("unpacked", "half-configured", "triggers-awaited", "triggers-pending")


class ActionModule(HouseAction):
    """Return the facts, or every violation at once."""

    arguments: ClassVar = {
        "house": {"type": "dict", "required": True},
        "packages": {"type": "list", "elements": "str", "required": True},
    }
    errors = (FactsError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Read the machine on which Ansible itself runs."""
        states = {
            **package_states(params["packages"]),
            "unmasked": unmasked(),
        }
        return read(from_vars(House, params["house"])) | {"packages": states}


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


def unmasked() -> list[str]:
    """Return the units to mask; those of packages that are not Hearth's belong to the user."""
    theirs = before.read_record().packages | ({*before.installed()} - before.requested())
    return [u for u, package in MASKED.items() if package not in theirs and not is_masked(u)]


def read(house: House) -> dict[str, Any]:
    """Return the task's result, without the packages."""
    facts = read_facts(house.machine)
    violations, warnings = violations_and_warnings(house, facts, read_environment(house, facts))
    if violations:
        return {"failed": True, "msg": "\n".join(violations), "warnings": warnings}
    chosen = {
        name: choose_accelerator(service.gpu, facts.graphics)
        for name, service in house.services.items()
    }
    budget, problems = stored_budget(house, RECEIPT_FOLDER / PLAN, facts)
    warnings = [*warnings, *problems]
    return {
        "machine": asdict(facts),
        "accelerators": chosen,
        "budget": budget,
        "warnings": warnings,
    }


def stored_budget(house: House, path: Path, facts: Facts) -> tuple[dict[str, Any], list[str]]:
    """Return the budget of the stored plan, and what is wrong with it.

    There is none without a plan, and with one for another machine.
    """
    try:
        plan = plan_of_document(path.read_text("utf-8"), str(path), house)
    except OSError:
        return {}, []
    except (PlanError, UnicodeDecodeError):
        return {}, [f"{path} cannot be read, so models have no budget: run `hearth plan`"]
    if changed := other_machine(plan.machine, facts.memory_bytes, facts.graphics.any_card):
        why = f"the plan is for another machine ({changed}), so models have no budget"
        return {}, [f"{why}: run `hearth plan`"]
    return asdict(runtime_budget(plan, house)), []

"""Check the variables that records give to their roles against the roles' own specifications."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from hearth.catalogue.naming import Problem, suggest
from hearth.catalogue.records import Catalogue

_SPECIFICATION = "meta/argument_specs.yml"


def check(catalogue: Catalogue, roles: Path) -> Iterator[Problem]:
    """Yield each setting that its role does not have; `roles` is the folder of all roles."""
    for section, records in (("services", catalogue.services), ("parts", catalogue.parts)):
        for name, record in records.items():
            known = _variables(roles / (record.role or name)) if record.settings else []
            for setting in record.settings:
                if setting not in known:
                    text = f"{name}.settings has no variable {setting}; {suggest(setting, known)}"
                    yield catalogue.problem((section, name, "settings", setting), text)


def _variables(role: Path) -> list[str]:
    """Return the variables that a person may set, from the role's specification."""
    path = role / _SPECIFICATION
    if not path.is_file():
        return []
    content = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    return list(content["argument_specs"]["main"].get("options", {}))

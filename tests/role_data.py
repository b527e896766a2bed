"""The roles as Ansible sees them, without a machine: their data, rendered from the catalogue."""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import filter_loader, init_plugin_loader, lookup_loader
from ansible.template import Templar, trust_as_template

import hearth.project
from hearth.catalogue import derive, load
from hearth.render.containers import lost_rules
from hearth.render.programs import Program, python_service, read_program, with_sidecar

ROOT = Path(__file__).parent.parent
ROLES = ROOT / "roles"
ACCELERATORS = ("none", "cuda", "vulkan", "software")


class AnySecrets:
    """A vault with every secret, each with a value that cannot be mistaken for a real one."""

    def values(self) -> Mapping[str, str]:
        """Give every name that is asked for."""
        return _Every()


class _Every(defaultdict[str, str]):
    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"made-up {name}"


@cache
def _plugins() -> DataLoader:
    init_plugin_loader()
    for loader, kind in ((filter_loader, "filter"), (lookup_loader, "lookup")):
        loader.add_directory(str(ROOT / "ansible/plugins" / kind))
    return DataLoader()


def role_names() -> list[str]:
    """Every role of the project."""
    return sorted(path.name for path in ROLES.iterdir() if path.is_dir())


def read(path: Path) -> Any:
    """One YAML file, its templates trusted as those of a playbook are; nothing if it lacks."""
    if not path.exists():
        return {}
    return _plugins().load_from_file(str(path), trusted_as_template=True) or {}


def reference_house(folder: Path) -> dict[str, Any]:
    """What follows from the inventory as committed, with the services that it has but leaves off.

    `folder` is empty and takes a copy of it.
    """
    for path in (ROOT / "inventory").glob("*.yml"):
        if path.name != "secrets.yml":
            shutil.copy(path, folder)
    records = yaml.safe_load((folder / "services.yml").read_text())["services"]
    off = [name for name, record in records.items() if record.get("enabled") is False]
    local = {"services": {name: {"enabled": True} for name in off}}
    (folder / "local").mkdir()
    (folder / "local/services.yml").write_text(yaml.safe_dump(local))
    return derive(load(folder)).as_vars()


def run_units(
    house: Mapping[str, Any], accelerator: str, given: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Unit name to unit text, for each program that a role hands to service_converge.

    `given` are the settings of the records.
    """
    units: dict[str, str] = {}
    for role in role_names():
        owners = [item for item in house["services"].values() if item["role"] == role]
        for owner in owners or [None]:
            variables = _variables(role, house, owner, accelerator)
            for asked in _converged(role):
                units |= _units_of(asked, {**variables, **(given or {})})
    return units


def lost_in_containers(house: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Program name to the rules of its unit that its container does not have, and their values."""
    found: dict[str, dict[str, str]] = {}
    owners = [*house["services"].values(), *house["parts"].values()]
    for owner in owners:
        if owner["contained"]:
            service = owner if "instance" in owner else None
            variables = _variables(owner["role"], house, service, "none")
            for asked in _converged(owner["role"]):
                for program in _programs_of(asked, variables):
                    run = python_service(program.run) if "module" in program.run else program.run
                    found[program.name] = lost_rules(run)
    return found


def installed_programs(house: Mapping[str, Any], accelerator: str) -> dict[str, set[str]]:
    """Service name to the folders that its role installs for it."""
    found: dict[str, set[str]] = {}
    for owner in house["services"].values():
        variables = _variables(owner["role"], house, owner, accelerator)
        names = found.setdefault(owner["name"], set())
        for task in read(ROLES / owner["role"] / "tasks/install.yml"):
            template = Templar(loader=_plugins(), variables=variables).template
            step = task.get("house_program") or task.get("house_pipelines") or {}
            for item in template(task.get("loop", [None])) if step else ():
                one = Templar(loader=_plugins(), variables={**variables, "item": item})
                names.add(one.template(step["name"]))
    return found


def units_of_tasks(path: Path, house: Mapping[str, Any], service: str) -> dict[str, str]:
    """Unit name to unit text, for the programs in one file of tasks for a service of the house."""
    variables = _variables(path.stem, house, house["services"][service], "none")
    units: dict[str, str] = {}
    for task in read(path):
        for program in task["service_converge"]["programs"]:
            units |= _units_of(program, variables)
    return units


def rendered_file(role: str, template: str, house: Mapping[str, Any]) -> str:
    """Return what a template of a role of the machine becomes."""
    text = trust_as_template((ROLES / role / "templates" / template).read_text(encoding="utf-8"))
    made = Templar(loader=_plugins(), variables=_variables(role, house, None, "none"))
    return str(made.template(text))


def rendered(
    role: str, name: str, house: Mapping[str, Any], service: str, given: Mapping[str, Any]
) -> Any:
    """Return what a variable of a role is for a service of the house."""
    variables = {**_variables(role, house, house["services"][service], "none"), **given}
    return Templar(loader=_plugins(), variables=variables).template(variables[name])


def _variables(
    role: str, house: Mapping[str, Any], service: Mapping[str, Any] | None, accelerator: str
) -> dict[str, Any]:
    return {
        **read(ROLES / role / "defaults/main.yml"),
        **read(ROLES / role / "vars/main.yml"),
        "house": house,
        "machine_facts": {
            "lan_interface": "lan0",
            "lan_address": "192.0.2.10",
            "lan_networks": ["192.0.2.0/24"],
            "upstream_dns": [],
        },
        "machine_accelerators": dict.fromkeys(house["services"], accelerator),
        "machine_budget": {},
        "service_machine": "house",
        "playbook_dir": str(ROOT),
        **({"service": service} if service else {}),
    }


def _converged(role: str) -> list[dict[str, Any]]:
    """The programs of each task of a role that hands some over."""
    found = []
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in read(path):
            if path.stem == "run" and "service_converge" in task:
                programs = task["service_converge"]["programs"]
                found += [program for program in programs if "run" in program]
    return found


def _units_of(asked: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, str]:
    return {item.name: item.unit for item in _programs_of(asked, variables)}


def _programs_of(asked: Mapping[str, Any], variables: dict[str, Any]) -> list[Program]:
    own = SimpleNamespace(vault=AnySecrets())
    before, hearth.project.current = hearth.project.current, lambda: own  # type: ignore[assignment]
    try:
        # Files need their role's templates; the rendered folders show them.
        given = {key: value for key, value in asked.items() if key not in ("files", "observe")}
        program = read_program(Templar(loader=_plugins(), variables=variables).template(given))
    finally:
        hearth.project.current = before
    return with_sidecar(program, variables.get("service", {}))

"""Converge the programs of one service or part in one step.

Argument: `programs`, a list of `Program`'s fields (hearth/render/programs.py). Credentials are
named here and read from the vault in Ansible's own process; their values travel only when one of
them differs. With the variable `render_folder` the files are written there and nothing is
converged: `ansible/playbooks/render.yml` does so. With `container_folder` the programs' own data
are, for images: `images.yml`.

The programs of a service that Podman runs are converged on the machine, as quadlets. Programs on
the machine itself are compared in this process first. Ansible starts the module only if
it has work to do, because most of a task's time is the start of its module.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import time
from collections.abc import Iterable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from hearth import progress
from hearth.catalogue.house import Service, from_vars
from hearth.machine import podman, quiet, systemd
from hearth.machine.container_images import describe_programs
from hearth.machine.engine import EngineError
from hearth.machine.images import recipe_of
from hearth.machine.secrets import SecretsError
from hearth.project import current
from hearth.render.programs import (
    Program,
    credential_values,
    read_program,
    rendered_files,
    with_sidecar,
)
from hearth.render.quadlets import on_machine
from hearth.render.units import UnitError


def load_module() -> ModuleType:
    """Import the module of the same name, which lies in no package."""
    path = Path(__file__).resolve().parents[1] / "modules/service_converge.py"
    spec = spec_from_file_location("hearth_service_converge", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = load_module()


class ActionModule(ActionBase):
    """Hand the programs to the module where they run."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Converge the programs, or render them."""
        result, given = super().run(tmp, task_vars), task_vars or {}
        _, arguments = self.validate_argument_spec(
            {"programs": {"type": "list", "elements": "dict", "required": True}}
        )
        programs: list[Program] = []
        try:
            for item in arguments["programs"]:
                programs += with_sidecar(read_program(item), given.get("service", {}))
            if folder := given.get("container_folder"):
                describe_programs(Path(self._templar.template(folder)), programs)
                return result | {"changed": False}
            folder = given.get("render_folder")
            if given.get("service", {}).get("runtime") == "podman":
                programs = self._as_quadlets(programs, given, known=not folder)
            if folder:
                return result | render(programs, Path(self._templar.template(folder)))
            values = self._values(programs)
            whole = [salted(program, values[program.name]) for program in programs]
        except (UnitError, SecretsError, podman.PodmanError) as error:
            raise AnsibleActionFail(str(error)) from error
        progress.work_at(str(given.get("inventory_hostname", "")))
        if self._connection.transport == "local" and "service" not in given:
            return result | self._converge(whole, values, given)
        with quiet.turn(alone=any(program.measures for program in programs)):
            return result | self._converge(whole, values, given)

    def _as_quadlets(
        self, programs: list[Program], task_vars: dict[str, Any], *, known: bool
    ) -> list[Program]:
        """Return the programs as containers; `known` is whether this machine may be looked at."""
        service = from_vars(Service, task_vars["service"])
        template = self._templar.template
        machine = template(task_vars["machine_facts"])
        resolver = str(template(task_vars["house"])["machine"]["resolver_address"])
        accelerator = str(template(task_vars["machine_accelerators"])[service.name])
        recipe = recipe_of(service, resolver)
        nodes = machine["graphics"]["render_nodes"]
        given = podman.given_for(recipe if known else None, resolver, accelerator, nodes)
        return on_machine(service, programs, given)

    def _values(self, programs: Iterable[Program]) -> dict[str, dict[str, str]]:
        """Return the credentials of each program; a preview makes no secrets and needs none."""
        named = any(program.credentials for program in programs)
        vault = current().vault.values() if named else {}
        if self._task.check_mode:
            vault = NotMade(vault)
        try:
            return {program.name: credential_values(program, vault) for program in programs}
        except KeyError as error:
            name = error.args[0]
            raise SecretsError(f"secret {name} is not set: `hearth secret set {name}`") from None

    def _converge(
        self, programs: list[dict[str, Any]], values: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        if self._connection.transport == "local":
            try:
                looked = MODULE.converge_all(
                    programs, write=False, diff=self._task.diff, secrets={}
                )
            except MODULE.Trouble as error:
                raise AnsibleActionFail(str(error)) from error
            if self._task.check_mode or not looked["changed"]:
                return dict(looked)
        local = self._connection.transport == "local"
        instance = None if local else str(task_vars.get("inventory_hostname"))
        units = [program["name"] for program in programs]
        look = partial(report_journal, instance, units, time.time())
        with progress.repeating(look, progress.EVERY_S / 2):
            done = self._module(programs, {}, task_vars)
            if done.get("needs_secrets"):
                done = self._module(programs, values, task_vars)
        return done

    def _module(
        self, programs: list[dict[str, Any]], values: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        arguments = {"programs": programs, "secrets": values}
        done: dict[str, Any] = self._execute_module(
            module_name="service_converge", module_args=arguments, task_vars=task_vars
        )
        return done


def report_journal(instance: str | None, units: list[str], since: float) -> None:
    """Report what each program has written: a long start says there what it is doing."""
    for unit in units:
        with contextlib.suppress(EngineError):
            if lines := systemd.last_log_lines(instance, f"{unit}.service", since):
                progress.report(unit, lines)


class NotMade(dict[str, str]):
    """A vault in which every secret has a value, for a preview before the first run."""

    def __missing__(self, name: str) -> str:
        """Return a placeholder for the value."""
        return "not made yet"


def salted(program: Program, values: dict[str, str]) -> dict[str, Any]:
    """Return the module's arguments, with a digest for each credential that betrays nothing."""
    digests = {}
    for name, value in values.items():
        salt = secrets.token_hex(16)
        digests[name] = f"{salt}:{hmac.new(salt.encode(), value.encode(), 'sha256').hexdigest()}"
    return program.arguments() | {"credentials": digests}


def render(programs: list[Program], folder: Path) -> dict[str, Any]:
    """Write what the reference inventory shows of the programs."""
    did = []
    for name, content in rendered_files(programs).items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            did.append(f"write {path}")
    return {"changed": bool(did), "did": did}

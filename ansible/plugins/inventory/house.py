"""Ansible's inventory, derived from the catalogue."""

from __future__ import annotations

DOCUMENTATION = """
name: house
short_description: Hosts and variables from Hearth's catalogue
description: Takes inventory/machines.yml as its source, reads the whole folder beside it, and
  rejects it with every problem at once. Adds the machine, one host per instance, and `house`.
author: Hearth
options:
  plugin:
    description: Not needed; the file's name identifies the plugin.
    type: str
"""

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import BaseInventoryPlugin

from hearth.catalogue import CatalogueError, derive
from hearth.machine.secrets import SecretsError
from hearth.project import Project
from hearth.render.containers import contained


class InventoryModule(BaseInventoryPlugin):
    """One machine, its instances, and the variable `house`."""

    NAME = "house"

    def verify_file(self, path: str) -> bool:
        """Return whether this is the catalogue's folder."""
        return Path(path).name == "machines.yml"

    def parse(
        self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True
    ) -> None:
        """Read the catalogue and add its hosts."""
        super().parse(inventory, loader, path, cache)
        project = Project(Path(path).resolve().parent.parent)
        try:
            house = project.house().as_vars()
            # Images are made for every machine, with a card or without.
            everything = derive(project.catalogue(), project.vault.names())
        except (CatalogueError, SecretsError) as error:
            raise AnsibleParserError(str(error)) from error
        inventory.set_variable("all", "house", house)
        for group in ("controllers", "machines", "instances", "remote", "containers"):
            inventory.add_group(group)
        self._add_containers(contained(everything).as_vars())
        if house["machine"]["reach"] == "local":
            self._add(house)
        else:
            self._add_remote(house)

    def _add(self, house: dict[str, Any]) -> None:
        inventory = self.inventory
        machine = house["machine"]["name"]
        inventory.add_host("localhost", "controllers")
        inventory.add_host(machine, "machines")
        for name in ("localhost", machine):
            # The modules that describe the machine use Hearth's own package.
            inventory.set_variable(name, "ansible_connection", "local")
            inventory.set_variable(name, "ansible_python_interpreter", sys.executable)
        for service in house["services"].values():
            if service["runtime"] == "external":
                continue
            host = service["instance"]
            inventory.add_host(host, "instances")
            # A container's files and units are the machine's own.
            inside = service["runtime"] == "incus"
            connection, python = (
                ("incus_api", "/usr/bin/python3") if inside else ("local", sys.executable)
            )
            inventory.set_variable(host, "ansible_connection", connection)
            inventory.set_variable(host, "ansible_python_interpreter", python)
            inventory.set_variable(host, "service", service)
            inventory.set_variable(host, "service_machine", machine)
            self._set(host, service["settings"])
        for part in house["parts"].values():
            self._set(machine, part["settings"])

    def _add_containers(self, house: dict[str, Any]) -> None:
        """Add what runs as a container: only the playbooks that write images name these hosts."""
        services = [
            (s, {"service": s}) for s in house["services"].values() if s["runtime"] != "external"
        ]
        parts = [(part, {"part": part}) for part in house["parts"].values()]
        for owner, own in (*services, *parts):
            host = f"container-{owner['name']}"
            self.inventory.add_host(host, "containers")
            variables = {
                "house": house,
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "service_machine": host,
                **own,
            }
            for name, value in variables.items():
                self.inventory.set_variable(host, name, value)
            self._set(host, owner["settings"])

    def _set(self, host: str, settings: dict[str, Any]) -> None:
        """Give a host the variables of a role that its record sets."""
        for name, value in settings.items():
            self.inventory.set_variable(host, name, value)

    def _add_remote(self, house: dict[str, Any]) -> None:
        """Add the hosts by name only: the house's own machine works on them, not this one."""
        instances = [
            s["instance"] for s in house["services"].values() if s["runtime"] != "external"
        ]
        # All hosts exist, so that --limit can name them.
        for name in (house["machine"]["name"], "localhost", *instances):
            self.inventory.add_host(name, "remote")
            self.inventory.set_variable(name, "ansible_connection", "local")
            self.inventory.set_variable(name, "ansible_python_interpreter", sys.executable)

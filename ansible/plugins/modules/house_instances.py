#!/usr/bin/python
"""Converge the images, volumes and instances of one machine in one step."""

from __future__ import annotations

DOCUMENTATION = """
module: house_instances
short_description: Converge the Incus instances of one machine
description: Builds missing images, creates, rebuilds, updates and starts instances, and
  removes images of ours that are unused. An instance without differences is left alone.
author: Hearth
options:
  services: {description: The services of this machine., type: dict, required: true}
  machine: {description: What machine_facts returned., type: dict, required: true}
  accelerators: {description: Service to accelerator., type: dict, required: true}
  resolver: {description: Address of the house's resolver for instances., type: str, required: true}
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue.house import Service, from_vars
from hearth.machine import images, instances
from hearth.machine.engine import SOCKET
from hearth.remove import incus

FOLDER = Path("/var/lib/hearth/images")
# Two builds fill two cores.
BUILDS_AT_ONCE = 2


SPEC: dict[str, Any] = {
    "argument_spec": {
        "services": {"type": "dict", "required": True},
        "machine": {"type": "dict", "required": True},
        "accelerators": {"type": "dict", "required": True},
        "resolver": {"type": "str", "required": True},
    }
}
TROUBLES = (images.ImageError, instances.InstanceError, LXDAPIException, ClientConnectionFailed)


def work(params: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Converge them, and return what was (or would be) done."""
    nodes = params["machine"]["graphics"]["render_nodes"]
    services = {
        name: from_vars(Service, service)
        for name, service in params["services"].items()
        if service["runtime"] == "incus"
    }
    recipes = {
        name: images.recipe_of(service, params["resolver"]) for name, service in services.items()
    }
    wanted = [
        instances.describe(service, recipes[name], nodes, params["accelerators"][name])
        for name, service in services.items()
    ]
    if not write and not Path(SOCKET).exists():
        done = [f"create {item.name} from {item.image}" for item in wanted]
        return {"changed": True, "did": done, "planned": [item.name for item in wanted]}
    client = Client(endpoint=SOCKET)
    if write:
        instances.settle(client)
    done = instances.ensure_pool(client, write)
    done += build_images(client, set(recipes.values()), write)
    for item in wanted:
        done += instances.ensure(client, item, write)
    # Last: while a service is being rebuilt its old system is still in use.
    for trace in incus.unused_images(client, {recipe.alias for recipe in recipes.values()}):
        done.append(f"remove {trace.what}")
        if write:
            trace.remove()
    # In check mode these instances do not exist yet.
    planned = [item.name for item in wanted if not instances.is_running(client, item.name)]
    return {"changed": bool(done), "did": done, "planned": planned}


def build_images(client: Client, recipes: set[images.Recipe], write: bool) -> list[str]:
    """Build the images that Incus does not have yet."""
    present = {alias["name"] for image in client.images.all() for alias in image.aliases}
    missing = [recipe for recipe in recipes if recipe.alias not in present]
    if write and missing:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for leftover in FOLDER.glob(".image-*"):
            images.discard(leftover)
        with ThreadPoolExecutor(BUILDS_AT_ONCE) as pool:
            list(pool.map(lambda recipe: images.import_image(recipe, FOLDER), missing))
    return [f"build image {recipe.alias}" for recipe in missing]


def main() -> None:
    """Run the module, and return what was done."""
    module = AnsibleModule(**SPEC, supports_check_mode=True)
    try:
        result = work(module.params, write=not module.check_mode)
    except TROUBLES as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()

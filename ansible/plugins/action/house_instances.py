"""Converge the images, volumes and Incus instances of one machine in one step.

Arguments: `services` (of this machine), `machine` (what machine_facts returned), `accelerators`
(service to accelerator) and `resolver` (address of the house's resolver for instances). Missing
images are built; instances are created, rebuilt, updated and started; unused images of ours are
removed. An instance without differences is left alone.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue.house import Service, from_vars
from hearth.machine import images, instances
from hearth.machine.action import HouseAction
from hearth.machine.engine import SOCKET
from hearth.remove import incus

FOLDER = Path("/var/lib/hearth/images")
# Two builds fill two cores.
BUILDS_AT_ONCE = 2


class ActionModule(HouseAction):
    """Compare images, volumes and instances with the catalogue; converge what differs."""

    arguments: ClassVar = {
        "services": {"type": "dict", "required": True},
        "machine": {"type": "dict", "required": True},
        "accelerators": {"type": "dict", "required": True},
        "resolver": {"type": "str", "required": True},
    }
    errors = (images.ImageError, instances.InstanceError, LXDAPIException, ClientConnectionFailed)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Converge them, and return what was (or would be) done."""
        nodes = params["machine"]["graphics"]["render_nodes"]
        services = {
            name: from_vars(Service, service)
            for name, service in params["services"].items()
            if service["runtime"] == "incus"
        }
        recipes = {
            name: images.recipe_of(service, params["resolver"])
            for name, service in services.items()
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
            shutil.rmtree(leftover, ignore_errors=True)
        with ThreadPoolExecutor(BUILDS_AT_ONCE) as pool:
            list(pool.map(lambda recipe: images.import_image(recipe, FOLDER), missing))
    return [f"build image {recipe.alias}" for recipe in missing]

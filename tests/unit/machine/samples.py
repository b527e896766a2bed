"""A machine and a service as the kernel and the catalogue describe them."""

from pathlib import Path
from typing import Any

from hearth.catalogue import derive, load
from hearth.catalogue.house import Service, from_vars
from hearth.machine.facts import Facts, Graphics
from hearth.machine.images import Recipe
from hearth.machine.instances import Instance, describe

GIB = 1024**3
BASE = Path(__file__).parents[2] / "fixtures/catalogue/base"
HOUSE = derive(load(BASE))


def facts(**more: Any) -> Facts:
    """Return a bare Debian machine without graphics."""
    plain: dict[str, Any] = {
        "debian": "13",
        "memory_bytes": 16 * GIB,
        "built": False,
        "disk_free_bytes": 100 * GIB,
        "lan_interface": "lan0",
        "lan_address": "192.0.2.10",
        "upstream_dns": ("192.0.2.1",),
    }
    cards: dict[str, Any] = {"render_nodes": (), "nvidia_card": False, "nvidia_tool": False}
    cards |= {name: more.pop(name) for name in cards if name in more}
    return Facts(**{**plain, **more, "graphics": Graphics(**cards)})


CARD = "/dev/dri/renderD128"


def service(**more: Any) -> Service:
    """One service as `derive` returns it, with the given fields in its plain form."""
    limits = dict.fromkeys(("memory", "cpus", "tasks"))
    plain: dict[str, Any] = {
        "instance": "open-webui",
        "host_name": "to-open-webui",
        "runtime": "incus",
        "image": "debian/13",
        "packages": ["python3"],
        "paths": [],
        "address": "10.140.30.14",
        "start_order": 3,
        "gpu": "none",
        "limits": limits,
        "volumes": [],
        "programs": ["open_webui"],
    }
    fields = {
        **HOUSE.as_vars()["services"]["ollama"],
        **plain,
        **more,
        "limits": {**limits, **more.get("limits", {})},
    }
    return from_vars(Service, fields)


RECIPE = Recipe("debian/13", ("python3",), "10.140.30.1", "")
VOLUME = {
    "name": "open-webui-data",
    "path": "/var/lib/open-webui",
    "copy": "files",
    "from_folder": None,
}


def wanted(accelerator: str = "none", **more: Any) -> Instance:
    """Return the instance of a service with a volume, on a machine with a card."""
    return describe(service(volumes=[VOLUME], **more), RECIPE, (CARD,), accelerator)

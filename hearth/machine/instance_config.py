"""Say what each instance shall be: its system, its limits, its wire, its devices, its volumes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.machine.facts import Facts
from hearth.machine.images import Recipe
from hearth.paths import PROGRAMS

POOL = "hearth"
# Fixed numbers, so that what a program wrote to its volume is its own in the next instance, too.
SERVICE_UID = 900
OWNER_KEY = "user.hearth"
IMAGE_KEY = "user.hearth.image"
# Of a record that names none: it may be as large as its models are, and one that has gone mad still
# leaves the machine enough to be repaired. They are no plan, so nothing is added up from them.
UNSAID = {"limits.memory": "80%", "limits.processes": "4096"}


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as it shall be: what Incus' API calls config and devices."""

    name: str
    image: str
    config: Mapping[str, str]
    devices: Mapping[str, Mapping[str, str]]
    volumes: tuple[str, ...] = field(default=())


def describe(
    service: Mapping[str, Any], recipe: Recipe, facts: Facts, accelerator: str
) -> Instance:
    """Turn a service's record into its instance."""
    name = str(service["instance"])
    limits = service.get("limits") or {}
    config = {
        OWNER_KEY: "1",
        IMAGE_KEY: recipe.alias,
        "boot.autostart": "true",
        # Incus starts one again whose first process was killed; nobody has to run anything for it.
        "boot.autorestart": "true",
        "boot.autostart.priority": str(100 - int(service["start_order"])),
        "security.idmap.isolated": "true",
        # Incus' own socket inside would tell the machine's paths; no program of ours asks it.
        "security.guestapi": "false",
    }
    config |= UNSAID
    for ours, theirs in (("memory", "memory"), ("cpus", "cpu"), ("tasks", "processes")):
        if limits.get(ours):
            config[f"limits.{theirs}"] = str(limits[ours])
    devices = {
        "root": {"type": "disk", "path": "/", "pool": POOL},
        "eth0": {
            "type": "nic",
            "nictype": "routed",
            "ipv4.address": str(service["address"]),
            "host_name": str(service["host_name"]),
        },
        "programs": {
            "type": "disk",
            "source": str(PROGRAMS),
            "path": "/opt/hearth",
            "readonly": "true",
        },
    }
    volumes = []
    for number, volume in enumerate(service["volumes"]):
        device = {"type": "disk", "path": str(volume["path"])}
        if volume["from"]:
            device |= {"source": str(volume["from"]), "shift": "true"}
        else:
            device |= {"source": str(volume["name"]), "pool": POOL}
            volumes.append(str(volume["name"]))
        devices[f"data{number}"] = device
    _add_graphics(config, devices, facts, accelerator)
    return Instance(name, recipe.alias, config, devices, tuple(volumes))


def _add_graphics(
    config: dict[str, str],
    devices: dict[str, dict[str, str]],
    facts: Facts,
    accelerator: str,
) -> None:
    if accelerator == "cuda":
        devices["gpu"] = {"type": "gpu", "gputype": "physical"}
        config["nvidia.runtime"] = "true"
        config["nvidia.driver.capabilities"] = "compute,utility"
    if accelerator == "vulkan":
        for number, node in enumerate(facts.render_nodes):
            # `required=false`: a card that wakes late must not keep the service from starting.
            devices[f"render{number}"] = {
                "type": "unix-char",
                "source": node.path,
                "required": "false",
                "gid": str(SERVICE_UID),
                "mode": "0660",
            }

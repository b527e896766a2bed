"""Refuse a machine that cannot become this house before anything on it is touched."""

from collections.abc import Mapping, Sequence
from typing import Any

from hearth.house.facts import Facts, Listener

# Hearth's own programs of an earlier run may hold the ports.
OUR_UNITS = "hearth-"
EVERYWHERE = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104  what is looked for, not what is bound
NEEDED_DISK_BYTES = 6 * 1024**3
ACCELERATORS = ("cuda", "vulkan")
MEBIBYTE = 1024**2


def choose_accelerator(wanted: str, facts: Facts) -> str:
    """Turn the record's `gpu` into what this machine can do: cuda, vulkan, software or none."""
    if wanted != "auto":
        return wanted
    if facts.nvidia_card and facts.nvidia_tool:
        return "cuda"
    return "vulkan" if facts.render_nodes else "none"


def problems(
    services: Mapping[str, Mapping[str, Any]],
    facts: Facts,
    listeners: Sequence[Listener],
) -> list[str]:
    """Everything that stands in the way, each in one line that says what to do."""
    found = []
    if facts.debian != "13":
        found.append(
            f"this machine runs Debian {facts.debian}; a house needs Debian 13 "
            "(a lab machine can be had anywhere: scripts/up --lab)"
        )
    found += _port_problems(listeners, facts.lan_address)
    found += _size_problems(services, facts)
    for name, service in services.items():
        found += _gpu_problems(name, str(service["gpu"]), facts)
    return found


def _port_problems(listeners: Sequence[Listener], lan_address: str) -> list[str]:
    ports = {("udp", 53), ("tcp", 53), ("tcp", 80), ("tcp", 443)}
    return [
        f"port {item.port}/{item.protocol} is held by {item.holder or 'another program'}; Hearth "
        "needs it for the house: stop that program or move it to another port"
        for item in listeners
        if (item.protocol, item.port) in ports
        and item.address in EVERYWHERE | {lan_address}
        and not item.holder.startswith(OUR_UNITS)
    ]


def _size_problems(services: Mapping[str, Mapping[str, Any]], facts: Facts) -> list[str]:
    found = []
    if facts.disk_free_bytes < NEEDED_DISK_BYTES:
        found.append(
            f"/var has {facts.disk_free_bytes / 1024**3:.1f} GiB free; images and programs need "
            f"{NEEDED_DISK_BYTES // 1024**3} GiB before the first model: free some"
        )
    asked = {name: asked_memory_bytes(service, facts) for name, service in services.items()}
    if sum(asked.values()) > facts.memory_bytes:
        parts = ", ".join(f"{name} {value // MEBIBYTE} MiB" for name, value in asked.items())
        found.append(
            f"the services' memory limits ({parts}) are more than the machine's "
            f"{facts.memory_bytes // MEBIBYTE} MiB: lower one in inventory/services.yml"
        )
    return found


def asked_memory_bytes(service: Mapping[str, Any], facts: Facts) -> int:
    """The memory limit of one service in bytes; a share is of this machine's memory."""
    limits = service["limits"]
    share = facts.memory_bytes * (limits["memory_percent"] or 0) // 100
    return int(limits["memory_bytes"] or share)


def _gpu_problems(name: str, wanted: str, facts: Facts) -> list[str]:
    if wanted == "cuda" and not facts.nvidia_card:
        return [f"{name} asks for gpu: cuda, and /dev/nvidia0 is not there: install the NVIDIA "
                "driver (package nvidia-driver), or write gpu: auto"]  # fmt: skip
    if wanted == "cuda" and not facts.nvidia_tool:
        return [f"{name} asks for gpu: cuda, and nvidia-container-cli is not there: install "
                "NVIDIA's package nvidia-container-toolkit, or write gpu: auto"]  # fmt: skip
    if wanted == "vulkan" and not facts.render_nodes:
        return [f"{name} asks for gpu: vulkan, and this machine has no render node in /dev/dri; "
                "what Mesa offers without one is llvmpipe, a software device and no GPU: "
                "write gpu: auto, or gpu: software to use it on purpose"]  # fmt: skip
    return []

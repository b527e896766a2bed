"""Refuse a machine that cannot become this house before anything on it is touched."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hearth.machine.facts import Facts, Graphics, Listener

# Hearth's own programs of an earlier run may hold the ports.
OUR_UNITS = "hearth-"
EVERYWHERE = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104  what is looked for, not what is bound
NEEDED_DISK_BYTES = 6 * 1024**3

# Debian builds NVIDIA's driver on the machine, and signs it with a key that the firmware must know.
LOCKED_OUT = (
    "there is an NVIDIA card without a driver, and Secure Boot is on, which keeps out a driver "
    "that is not signed: install nvidia-driver, then `mokutil --import /var/lib/dkms/mok.pub` and "
    "start anew, or turn Secure Boot off"
)


def choose_accelerator(wanted: str, seen: Graphics | Facts) -> str:
    """Turn the record's `gpu` into what this machine can do: cuda, vulkan, software or none."""
    if wanted != "auto":
        return wanted
    if seen.nvidia_card and seen.nvidia_tool:
        return "cuda"
    return "vulkan" if seen.render_nodes else "none"


def lacks_gpu(wanted: str, seen: Graphics) -> bool:
    """Whether a service that is on only with its GPU (`enabled: auto`) has to stay off here."""
    missing = {
        "cuda": not (seen.nvidia_card and seen.nvidia_tool),
        "vulkan": not seen.render_nodes,
        "auto": choose_accelerator("auto", seen) == "none",
    }
    return missing.get(wanted, False)


def notes(
    services: Mapping[str, Mapping[str, Any]], facts: Facts, locked_out: bool = False
) -> list[str]:
    """What `auto` does without, and why: no error, but nobody should have to guess it."""
    taken = choose_accelerator("auto", facts)
    if locked_out and not facts.nvidia_card:
        why = f"{LOCKED_OUT}; gpu: auto takes {'the processor' if taken == 'none' else taken}"
    elif facts.nvidia_card and not facts.nvidia_tool:
        why = (
            "there is an NVIDIA card, but not NVIDIA's package nvidia-container-toolkit, so "
            f"gpu: auto takes {'the processor' if taken == 'none' else taken}"
        )
    elif taken == "none":
        why = (
            "there is no GPU here, so gpu: auto takes the processor; llvmpipe, which Mesa offers "
            "without one, is a software device and no GPU"
        )
    else:
        return []
    return [f"{name}: {why}" for name, service in services.items() if service["gpu"] == "auto"]


def problems(
    services: Mapping[str, Mapping[str, Any]],
    facts: Facts,
    listeners: Sequence[Listener],
    locked_out: bool = False,
) -> list[str]:
    """Everything that stands in the way, each in one line that says what to do.

    `locked_out` says that there is an NVIDIA card and that Secure Boot is on.
    """
    found = []
    if facts.debian != "13":
        found.append(
            f"this machine runs Debian {facts.debian}; a house needs Debian 13 "
            "(a lab machine can be had anywhere: scripts/up --lab)"
        )
    found += _port_problems(listeners, facts.lan_address)
    # Later on the same space may be full of models, and that is no obstacle.
    if not facts.built and facts.disk_free_bytes < NEEDED_DISK_BYTES:
        found.append(
            f"/var has {facts.disk_free_bytes / 1024**3:.1f} GiB free; images and programs need "
            f"{NEEDED_DISK_BYTES // 1024**3} GiB before the first model: free some"
        )
    for name, service in services.items():
        if service["runtime"] == "podman":
            found.append(f"{name} asks for runtime: podman, which cannot be built yet: write incus")
        found += _gpu_problems(name, str(service["gpu"]), facts, locked_out)
    return found


def _port_problems(listeners: Sequence[Listener], lan_address: str) -> Iterator[str]:
    # The resolver answers on the LAN and on the machine itself. The front door answers everywhere,
    # for which the kernel wants the port to be free on each address.
    names = EVERYWHERE | {lan_address, "127.0.0.1", "::1"}
    wanted = {("udp", 53): names, ("tcp", 53): names, ("tcp", 80): None, ("tcp", 443): None}
    for item in listeners:
        where = wanted.get((item.protocol, item.port), frozenset())
        if (where is None or item.address in where) and not item.holder.startswith(OUR_UNITS):
            on = "" if item.address in EVERYWHERE else f" on {item.address}"
            yield (
                f"port {item.port}/{item.protocol} is held by {item.holder or 'another program'}"
                f"{on}; Hearth needs it for the house: stop that program or move it to another port"
            )


def _gpu_problems(name: str, wanted: str, facts: Facts, locked_out: bool) -> list[str]:
    if wanted == "cuda" and not facts.nvidia_card and locked_out:
        return [f"{name} asks for gpu: cuda, and {LOCKED_OUT}, or write gpu: auto"]
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

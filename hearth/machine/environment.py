"""Read the machine's environment: other networks and resolvers, its clock, its firmware."""

import ctypes
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hearth.catalogue.house import House, Model
from hearth.machine.facts import (
    LINKS,
    Facts,
    Listener,
    graphics_devices,
    ip,
    listeners,
    text_of,
)
from hearth.machine.other_firewalls import firewall_problems
from hearth.machine.probe import answer

# Hearth masks these units of the packages that it installs: it has units of its own for them.
UNITS = "etc/systemd/system"
MASKED: Mapping[str, str] = {
    f"{package}.service": package
    for package in ("caddy", "prometheus-blackbox-exporter", "prometheus-node-exporter")
}
_NVIDIA = "0x10de"
# The variable's name is the standard's; its fifth byte is the value.
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# adjtimex returns this while nothing synchronises the clock.
_TIME_ERROR = 5
# Names that routers use for themselves, tried besides this machine's own name.
_ROUTER_NAMES = ("router", "gateway", "openwrt", "fritz")


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine's environment; the defaults are those of a machine without problems.

    `networks` are pairs of an interface and an IPv4 range. `claims` are names of the house's domain
    that another resolver resolves: the server to a name and its address. `locked_out` is true with
    an NVIDIA card and Secure Boot. `clock` is None, `early` for a time before this Debian's
    release, or `free` without synchronisation. `free_bytes` is per folder of the user's own that
    models are stored in. `own_units` are units of the user's that Hearth's masks would replace.
    `firewall_problems` are lines about other firewalls that would stop packets of the house.
    """

    root: bool = True
    tun: bool = True
    listeners: tuple[Listener, ...] = ()
    networks: tuple[tuple[str, str], ...] = ()
    claims: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    locked_out: bool = False
    clock: str | None = None
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    own_units: tuple[str, ...] = ()
    firewall_problems: tuple[str, ...] = ()


def read_environment(house: House, facts: Facts, root: Path = Path("/")) -> Environment:
    """Read everything; `root` is another file system in tests."""
    folders = {model_folder(house, model) for model in house.models.values() if model.usable}
    return Environment(
        root=os.geteuid() == 0,
        tun=(root / "dev/net/tun").exists(),
        listeners=tuple(listeners()),
        networks=tuple(networks()),
        claims=claims(house, facts),
        locked_out=nvidia_on_bus(root) and secure_boot(root),
        clock=clock(root),
        free_bytes={path: free_bytes(Path(path)) for path in folders if path not in (None, "/var")},
        own_units=tuple(own_units(root)),
        firewall_problems=tuple(firewall_problems(house.machine.instances, root)),
    )


def model_folder(house: House, model: Model) -> str | None:
    """Return the disk that a model is stored on; None for one that is not downloaded."""
    if model.program:
        return "/var"
    service = house.services.get(model.service or "")
    if service is None or not model.pulled:
        return None
    return next((volume.from_folder for volume in service.volumes if volume.from_folder), "/var")


def networks() -> Iterable[tuple[str, str]]:
    """Yield every IPv4 range that is routed to an interface that Hearth did not create."""
    for route in ip("-4", "route", "show"):
        device, range_ = str(route.get("dev", "")), str(route.get("dst", "default"))
        if range_ != "default" and device and not device.startswith(LINKS):
            yield device, range_


def claims(house: House, facts: Facts) -> dict[str, tuple[str, str]]:
    """Query other resolvers for names that only this house should resolve, before it is built."""
    domain = house.machine.domain
    others = [f"{word}.{domain}" for word in (socket.gethostname().split(".")[0], *_ROUTER_NAMES)]
    servers = () if facts.built else facts.upstream_dns
    return foreign_answers(house, servers, facts.lan_address, others)


def foreign_answers(
    house: House, servers: Sequence[str], own_address: str, others: Sequence[str] = ()
) -> dict[str, tuple[str, str]]:
    """Return the first name of the house that each server answers with a foreign address.

    Of the names in `others` every answer is foreign. A server that resolves every name is left out.
    """
    wanted = [site.fqdn for site in house.sites]
    # Some providers resolve every name, which is no claim to this domain.
    nonsense = f"hearth-{secrets.token_hex(6)}.{house.machine.domain}"
    names = [nonsense, *wanted, *others]
    queries = [[server, name, "A"] for server in servers for name in names]
    answers = iter(answer({"resolve": queries})["resolve"])
    found: dict[str, tuple[str, str]] = {}
    for server in servers:
        known = {name: next(answers)[1] for name in names}
        for name in () if known[nonsense] else (*wanted, *others):
            # A router that forwards queries to this house returns the house's own address.
            ours = name in wanted and own_address in known[name]
            if known[name] and not ours:
                found.setdefault(server, (name, known[name][0]))
    return found


def nvidia_on_bus(root: Path) -> bool:
    """Return whether an NVIDIA card is plugged in, with or without a driver."""
    return any(text_of(device / "vendor") == _NVIDIA for device in graphics_devices(root))


def secure_boot(root: Path) -> bool:
    """Return whether the firmware allows only signed drivers."""
    try:
        return (root / _SECURE_BOOT).read_bytes()[4:5] == b"\1"
    except OSError:
        return False


def clock(root: Path) -> str | None:
    """Return what is wrong with the clock, as far as the machine itself can tell."""
    made = root / "usr/lib/os-release"
    if made.exists() and time.time() < made.stat().st_mtime:
        return "early"
    # In a container the clock belongs to the host.
    if (root / "run/systemd/container").exists():
        return None
    return "free" if _adjtimex() == _TIME_ERROR else None


def own_units(root: Path) -> Iterable[str]:
    """Yield the units of the user's in the places of the house's masks."""
    for unit in MASKED:
        path = root / UNITS / unit
        if os.path.lexists(path) and not is_masked(unit, root):
            yield unit


def is_masked(unit: str, root: Path = Path("/")) -> bool:
    """Return whether systemd is kept from starting the unit by itself."""
    path = root / UNITS / unit
    return path.is_symlink() and path.readlink() == Path(os.devnull)


def _adjtimex() -> int:
    """Return the kernel's status of its clock; nothing is changed."""
    # struct timex is smaller; `modes` 0 in its first field means: only read.
    return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024)))


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk that a folder is on, or will be on."""
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    return shutil.disk_usage(there).free

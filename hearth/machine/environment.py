"""Read the machine's environment: other networks and resolvers, its clock, its firmware."""

import ctypes
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearth.catalogue.house import House
from hearth.machine.facts import LINKS, Facts, graphics_devices, ip, text_of
from hearth.machine.probe import answer

# Hearth masks this unit, so that Debian's own Caddy does not start.
MASK = "etc/systemd/system/caddy.service"
_NVIDIA = "0x10de"
# The variable's name is the standard's; its fifth byte is the value.
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# adjtimex returns this while nothing synchronises the clock.
_TIME_ERROR = 5
# Names that routers use for themselves, tried besides this machine's own name.
_ROUTER_NAMES = ("router", "gateway", "openwrt", "fritz")


@dataclass(frozen=True, slots=True)
class Claim:
    """A name of the house's domain that another resolver resolves."""

    server: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine's environment; the defaults are those of a machine without problems.

    `networks` are pairs of an interface and an IPv4 range. `clock` is None, `early` for a time
    before this Debian's release, or `free` without synchronisation. `free_bytes` is per folder.
    `hidden` are the user's own files that Hearth's mask would replace.
    """

    root: bool = True
    tun: bool = True
    networks: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = ()
    nvidia_on_bus: bool = False
    secure_boot: bool = False
    clock: str | None = None
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


def read_environment(
    house: House, facts: Facts, folders: Iterable[str] = (), root: Path = Path("/")
) -> Environment:
    """Read everything; `folders` need free space, `root` is another file system in tests."""
    return Environment(
        root=os.geteuid() == 0,
        tun=(root / "dev/net/tun").exists(),
        networks=tuple(networks()),
        claims=tuple(claims(house, facts)),
        nvidia_on_bus=nvidia_on_bus(root),
        secure_boot=secure_boot(root),
        clock=clock(root),
        free_bytes={folder: _free(Path(folder)) for folder in folders},
        hidden=hidden(root),
    )


def networks() -> Iterable[tuple[str, str]]:
    """Yield every IPv4 range that is routed to an interface that Hearth did not create."""
    for route in ip("-4", "route", "show"):
        device, range_ = str(route.get("dev", "")), str(route.get("dst", "default"))
        if range_ != "default" and device and not device.startswith(LINKS):
            yield device, range_


def claims(house: House, facts: Facts) -> Iterable[Claim]:
    """Query other resolvers for names that only this house should resolve, before it is built."""
    wanted, domain = [site.fqdn for site in house.sites], house.machine.domain
    others = [f"{word}.{domain}" for word in (socket.gethostname().split(".")[0], *_ROUTER_NAMES)]
    # Some providers resolve every name, which is no claim to this domain.
    nonsense = f"hearth-{secrets.token_hex(6)}.{domain}"
    servers = () if facts.built else facts.upstream_dns
    asked = [(server, name) for server in servers for name in (nonsense, *wanted, *others)]
    answers = answer({"resolve": [[server, name, "A"] for server, name in asked]})["resolve"]
    found = {
        key: addresses for key, (_, addresses) in zip(asked, answers, strict=True) if addresses
    }
    for (server, name), addresses in found.items():
        # A router that forwards queries to this house returns the house's own address.
        ours = name in wanted and facts.lan_address in addresses
        if not ours and (server, nonsense) not in found:
            yield Claim(server, name, addresses[0])


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


def hidden(root: Path) -> tuple[str, ...]:
    """Return the user's own unit in the place of the house's mask."""
    path = root / MASK
    masked = path.is_symlink() and path.readlink() == Path(os.devnull)
    return (f"/{MASK}",) if os.path.lexists(path) and not masked else ()


def _adjtimex() -> int:
    """Return the kernel's status of its clock; nothing is changed."""
    # struct timex is smaller; `modes` 0 in its first field means: only read.
    return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024)))


def _free(folder: Path) -> int:
    """Return the free bytes of the disk that a folder is on, or will be on."""
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    return shutil.disk_usage(there).free

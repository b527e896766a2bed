"""What lies around the machine and can spoil a house: other networks and resolvers, its clock."""

import ctypes
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearth.machine.facts import WIRES, ip
from hearth.machine.probe import answer

# Masked by us, so that Debian's own Caddy does not start.
MASK = "etc/systemd/system/caddy.service"
_NVIDIA, _DISPLAY = "0x10de", "0x03"
# The variable's name is the standard's; its fifth byte is the value.
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# What adjtimex says where nobody has set the clock by a better one.
_TIME_ERROR = 5
# What routers call themselves or what they gave an address to, besides this machine's own name.
_OTHERS_NAMES = ("router", "gateway", "openwrt", "fritz")


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked of other resolvers: names of the house may lead to `own` and nowhere else."""

    names: tuple[str, ...]
    domain: str
    own: str
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A name of the house's domain to which another resolver has an answer."""

    server: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was seen; the defaults are those of a machine on which nothing stands in the way.

    `networks` are pairs of an interface and an IPv4 range; `clock` is None, `early` where the
    clock shows a time before this Debian was made, `free` where nobody sets it. `free` has bytes.
    `hidden` are files of somebody's own in whose place a mask of ours would be.
    """

    root: bool = True
    tun: bool = True
    networks: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = ()
    nvidia_on_bus: bool = False
    secure_boot: bool = False
    clock: str | None = None
    free: Mapping[str, int] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


def look(questions: Questions, folders: Iterable[str] = (), root: Path = Path("/")) -> Surroundings:
    """See it all; `folders` are those whose room matters, `root` is another machine's in tests."""
    return Surroundings(
        root=os.geteuid() == 0,
        tun=(root / "dev/net/tun").exists(),
        networks=tuple(networks()),
        claims=tuple(claims(questions)),
        nvidia_on_bus=nvidia_on_bus(root),
        secure_boot=secure_boot(root),
        clock=clock(root),
        free={folder: _free(Path(folder)) for folder in folders},
        hidden=hidden(root),
    )


def networks() -> Iterable[tuple[str, str]]:
    """Every IPv4 range that is routed to an interface of somebody else's."""
    for route in ip("-4", "route", "show"):
        device, range_ = str(route.get("dev", "")), str(route.get("dst", "default"))
        if range_ != "default" and device and not device.startswith(WIRES):
            yield device, range_


def claims(asked_for: Questions) -> Iterable[Claim]:
    """Ask other resolvers for names that nobody but this house should know."""
    wanted, domain, servers = list(asked_for.names), asked_for.domain, asked_for.servers
    others = [f"{word}.{domain}" for word in (socket.gethostname().split(".")[0], *_OTHERS_NAMES)]
    # Some providers answer to anything at all; that says nothing about this domain.
    nonsense = f"hearth-{secrets.token_hex(6)}.{domain}"
    asked = [(server, name) for server in servers for name in (nonsense, *wanted, *others)]
    said = answer({"resolve": [[server, name, "A"] for server, name in asked]})["resolve"]
    found = {key: addresses for key, (_, addresses) in zip(asked, said, strict=True) if addresses}
    for (server, name), addresses in found.items():
        # A router that passes questions on to this house gives the house's own answer.
        ours = name in wanted and asked_for.own in addresses
        if not ours and (server, nonsense) not in found:
            yield Claim(server, name, addresses[0])


def nvidia_on_bus(root: Path) -> bool:
    """Whether an NVIDIA card is plugged in, with or without a driver."""
    for device in (root / "sys/bus/pci/devices").glob("*"):
        kind = _text(device / "class")
        if kind.startswith(_DISPLAY) and _text(device / "vendor") == _NVIDIA:
            return True
    return False


def secure_boot(root: Path) -> bool:
    """Whether the firmware lets only signed drivers in."""
    try:
        return (root / _SECURE_BOOT).read_bytes()[4:5] == b"\1"
    except OSError:
        return False


def clock(root: Path) -> str | None:
    """What is wrong with the clock, as far as the machine itself can know."""
    made = root / "usr/lib/os-release"
    if made.exists() and time.time() < made.stat().st_mtime:
        return "early"
    # In a container the clock is somebody else's.
    if (root / "run/systemd/container").exists():
        return None
    return "free" if _adjtimex() == _TIME_ERROR else None


def hidden(root: Path) -> tuple[str, ...]:
    """Name the unit that somebody has put where the house puts a mask."""
    path = root / MASK
    masked = path.is_symlink() and path.readlink() == Path(os.devnull)
    return (f"/{MASK}",) if os.path.lexists(path) and not masked else ()


def _adjtimex() -> int:
    """The kernel's own judgement of its clock; nothing is changed."""
    # struct timex is smaller; `modes` 0 at its beginning means: only tell.
    return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024)))


def _free(folder: Path) -> int:
    """The bytes free on the disk that a folder lies on, or will."""
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    return shutil.disk_usage(there).free


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""Whom the house's resolver asks about the rest of the world, which must never be itself."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Literal

# Where the house's resolver is told whom to ask.
RESOLVER_FILE = "etc/hearth/dnsmasq.conf"
# systemd-resolved puts its own stub into resolv.conf and the real ones beside.
_FILES = ("run/systemd/resolve/resolv.conf", "etc/resolv.conf")

# `known`: named, or read from the machine; `kept`: as before, for the machine knows no other now;
# `itself`: all that it knows is the house; `none`: it knows nobody.
Known = Literal["known", "kept", "itself", "none"]


@dataclass(frozen=True, slots=True)
class Upstream:
    """The servers, and how they came to be known."""

    servers: tuple[str, ...]
    known: Known


def choose(record: Mapping[str, Any], own: Collection[str], root: Path = Path("/")) -> Upstream:
    """Take what the record names, or else what the machine uses, without the house itself.

    A router that hands out the house as the network's server tells so to the house's machine, too.
    The resolver would then ask itself, and nobody at home would find a name of the world any more.
    `own` are addresses of the machine.
    """
    ours = [*own, record["resolver_address"], "127.0.0.1", "::1"]
    named = record["upstream_dns"]
    asked = [named] if named != "auto" else [_nameservers(root / name, ours) for name in _FILES]
    for servers in asked:
        if others := without(servers, ours):
            return Upstream(others, "known")
    if before := without(written(root), ours):
        return Upstream(before, "kept")
    return Upstream((), "itself" if any(asked) else "none")


def without(servers: Iterable[str], own: Iterable[str]) -> tuple[str, ...]:
    """Leave out the servers that are this machine."""
    ours = {_address(one) for one in own}
    return tuple(server for server in servers if _address(server) not in ours)


def written(root: Path = Path("/")) -> list[str]:
    """Whom the house's resolver is told to ask now."""
    words = (line.partition("=") for line in _lines(root / RESOLVER_FILE))
    return [server for key, _, server in words if key == "server" and _address(server)]


def _nameservers(path: Path, ours: Iterable[str]) -> list[str]:
    """The servers of a resolv.conf, without those on other loopback addresses than `ours`."""
    own = {_address(one) for one in ours}
    rows = (line.split() for line in _lines(path))
    found = [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver"]
    return [
        server
        for server in found
        if (address := _address(server)) and (address in own or not address.is_loopback)
    ]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, whatever wire of this machine it names; None where it is none."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []

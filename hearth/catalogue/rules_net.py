"""Rules about the network: ranges, addresses, ports and published names."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import islice
from typing import Any

from hearth.catalogue.naming import LABEL
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue, Finding

# The resolver and the reverse proxy; no service may take these.
_HOUSE_PORTS = {53: "the resolver's", 80: "the reverse proxy's", 443: "the reverse proxy's"}
_NARROWEST = 28
# Private ranges that few routers hand out.
_RANGES = ("10.140.30.0/24", "172.29.30.0/24")


def ranges(catalogue: Catalogue) -> Iterator[Finding]:
    """The instances' range is private, large enough, and not part of the LAN."""
    for name, record in catalogue.machines.items():
        network = IPv4Network(record.instances)
        key = ("machines", name, "instances")
        if not network.is_private:
            yield key, f"{name}.instances {network} is not private; write e.g. 10.140.30.0/24"
        if network.prefixlen > _NARROWEST:
            text = f"{name}.instances {network} is too small; write a /24, at least a /{_NARROWEST}"
            yield key, text
        if record.lan_address != "auto" and IPv4Address(record.lan_address) in network:
            other = next(r for r in _RANGES if not IPv4Network(r).overlaps(network))
            text = f"{name}.lan_address {record.lan_address} lies in the instances' range {network}"
            text += f" ({catalogue.at(*key)}); choose another range, e.g. {other}"
            yield ("machines", name, "lan_address"), text


def _free(catalogue: Catalogue, network: IPv4Network) -> str:
    """Return a free address; the lowest ones stay free for the house where there is room."""
    taken = {record.address for record in catalogue.services.values()}
    hosts = [str(host) for host in islice(network.hosts(), 1, 254)]
    return next((host for host in (*hosts[9:], *hosts) if host not in taken), "a wider range")


def addresses(catalogue: Catalogue) -> Iterator[Finding]:
    """Every instance has an address of its own in the range, other than the resolver's."""
    if not catalogue.machines:
        return
    network = IPv4Network(next(iter(catalogue.machines.values())).instances)
    if network.prefixlen > _NARROWEST:
        return
    free = _free(catalogue, network)
    owners: dict[str, str] = {}
    for name, record in catalogue.services.items():
        if record.runtime == "external" or not record.present:
            continue
        key = ("services", name, "address")
        if record.address is None:
            if not catalogue.written(*key):
                yield key, f"{name}.address is missing; write address: {free}"
            continue
        address = IPv4Address(record.address)
        text = f"{name}.address {address}"
        if address not in network:
            yield key, f"{text} is outside {network}; choose one in it, e.g. {free}"
        elif address == network[1]:
            yield key, f"{text} is the resolver's; choose another, e.g. {free}"
        elif address in (network[0], network[-1]):
            yield key, f"{text} is the edge of {network}; choose another, e.g. {free}"
        elif record.address in owners:
            first = ("services", owners[record.address], "address")
            yield key, catalogue.taken(text, first, f"choose another, e.g. {free}")
        elif record.runtime == "podman":
            yield from _own_block(catalogue, name, address)
        owners.setdefault(record.address, name)


def _own_block(catalogue: Catalogue, name: str, address: IPv4Address) -> Iterator[Finding]:
    """A container has the /30 around its address to itself, and the third address of it."""
    block = IPv4Network(f"{address}/30", strict=False)
    key = ("services", name, "address")
    if address != block[2]:
        yield key, f"{name}.address {address} must be its /30's third for podman; write {block[2]}"
        return
    for other, record in catalogue.services.items():
        inside = record.address and IPv4Address(record.address) in block
        if other != name and inside and record.present and record.runtime != "external":
            where = catalogue.at("services", other, "address")
            text = f"{name}.address {address} takes {block} for podman, where {other} is ({where})"
            yield key, f"{text}; choose one at least 4 away"


def ports(catalogue: Catalogue) -> Iterator[Finding]:
    """No two programs listen on one port of one address; the parts share the machine."""
    owners: dict[tuple[str, int], Key] = {}
    for (section, name), record in _owners(catalogue):
        key, service = (section, name), section == "services"
        if service and (record.runtime == "external" or not record.present):
            continue
        if service and record.port is None and not catalogue.written(*key, "port"):
            text = f"{name}.port is missing; write the port it listens on, e.g. port: 8080"
            yield (*key, "port"), text
        address = str(record.address) if service else "the machine"
        # A program may serve its metrics on its own port, so each port counts once.
        for field in ("port", "metrics_port"):
            port = getattr(record, field)
            if port is None or (field == "metrics_port" and port == record.port):
                continue
            first = owners.setdefault((address, port), (*key, field))
            if first[:2] != key:
                instead = f"choose another, e.g. {port + 1}"
                yield (*key, field), catalogue.taken(f"{name}.port {port}", first, instead)


def published_names(catalogue: Catalogue) -> Iterator[Finding]:
    """Every name on the LAN is a valid label, has one owner, and a program or files behind it."""
    owners: dict[str, Key] = {}
    for (section, name), record in _owners(catalogue):
        for label, site in record.publish.items():
            key = (section, name, "publish", label)
            text = f"{name}.publish {label}"
            if not LABEL.fullmatch(label):
                better = label.lower().replace("_", "-").strip("-.")
                yield key, f"{text} is not a valid DNS label; write e.g. {better}"
            if label in owners:
                instead = f"choose another, e.g. {label}2"
                yield key, catalogue.taken(text, owners[label], instead)
            owners.setdefault(label, key)
            if section == "parts" and record.port is None and not site.files:
                yield key, f"{text} has nothing behind it; write a port or files"


def plain_sites(catalogue: Catalogue) -> Iterator[Finding]:
    """A site without HTTPS needs no secret, and one site at most has the machine's address."""
    owner: Key | None = None
    for (section, name), record in _owners(catalogue):
        for label, site in record.publish.items():
            if not site.plain:
                continue
            key = (section, name, "publish", label, "plain")
            text = f"{name}.publish {label}.plain"
            if site.auth != "lan":
                yield key, f"{text} would send secrets unencrypted; write auth: lan, or no plain"
            if owner:
                text += ": the machine's address"
                yield key, catalogue.taken(text, owner, "leave plain out here")
            owner = owner or key


def published_ports(catalogue: Catalogue) -> Iterator[Finding]:
    """Ports forwarded from the LAN are valid, and each has one owner."""
    owners: dict[int, Key] = {}
    for name, record in catalogue.services.items():
        for written in record.publish_tcp:
            key = ("services", name, "publish_tcp", written)
            text = f"{name}.publish_tcp {written}"
            if not written.isdigit() or not 1 <= int(written) <= 65535:
                yield key, f"{text} is not a valid port; write a number, e.g. 10300: []"
                continue
            port = int(written)
            if port in _HOUSE_PORTS:
                yield key, f"{text} is {_HOUSE_PORTS[port]}; choose another port"
            elif port in owners:
                instead = f"choose another, e.g. {port + 1}"
                yield key, catalogue.taken(text, owners[port], instead)
            owners.setdefault(port, key)


def _owners(catalogue: Catalogue) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield each service and part under its section and name."""
    for section in ("services", "parts"):
        for name, record in getattr(catalogue, section).items():
            yield (section, name), record

"""Rules about the LAN and the wires: ranges, addresses, ports and published names."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import islice

from hearth.catalogue.naming import LABEL, Problem
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue

# The resolver and the front door; nothing else may take them.
_HOUSE_PORTS = {53: "the resolver's", 80: "the front door's", 443: "the front door's"}
_NARROWEST = 28
# Private ranges that few routers hand out.
_RANGES = ("10.140.30.0/24", "172.29.30.0/24")


def ranges(catalogue: Catalogue) -> Iterator[Problem]:
    """The instances' range is private, has room, and is not the LAN."""
    for name, record in catalogue.machines.items():
        network = IPv4Network(record.instances)
        key = ("machines", name, "instances")
        if not network.is_private:
            text = f"{name}.instances {network} is not a private range; write e.g. 10.140.30.0/24"
            yield catalogue.problem(key, text)
        if network.prefixlen > _NARROWEST:
            text = f"{name}.instances {network} has no room; write a /24, at least a /{_NARROWEST}"
            yield catalogue.problem(key, text)
        if record.lan_address != "auto" and IPv4Address(record.lan_address) in network:
            other = next(r for r in _RANGES if not IPv4Network(r).overlaps(network))
            text = (
                f"{name}.lan_address {record.lan_address} lies in the instances' range {network} "
                f"({catalogue.at(*key)}); choose another range, e.g. {other}"
            )
            yield catalogue.problem(("machines", name, "lan_address"), text)


def _free(catalogue: Catalogue, network: IPv4Network) -> str:
    """Name an address that nobody has; small numbers are left to the house."""
    taken = {record.address for record in catalogue.services.values()}
    # The first is the resolver's; a few after it stay free for the house where there is room.
    hosts = [str(host) for host in islice(network.hosts(), 1, 254)]
    return next((host for host in (*hosts[9:], *hosts) if host not in taken), "a wider range")


def addresses(catalogue: Catalogue) -> Iterator[Problem]:
    """Every instance has its own address in the range, and the resolver keeps its."""
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
                yield catalogue.problem(key, f"{name}.address is missing; write address: {free}")
            continue
        address = IPv4Address(record.address)
        if address not in network:
            text = f"{name}.address {address} is outside {network}; choose one in it, e.g. {free}"
            yield catalogue.problem(key, text)
        elif address == network[1]:
            text = f"{name}.address {address} is the resolver's; choose another, e.g. {free}"
            yield catalogue.problem(key, text)
        elif address in (network[0], network[-1]):
            text = f"{name}.address {address} is the edge of {network}; choose another, e.g. {free}"
            yield catalogue.problem(key, text)
        elif record.address in owners:
            first = ("services", owners[record.address], "address")
            text = f"{name}.address {record.address}"
            text = catalogue.taken(text, first, f"choose another, e.g. {free}")
            yield catalogue.problem(key, text)
        elif record.runtime == "podman":
            yield from _own_block(catalogue, name, address)
        owners.setdefault(record.address, name)


def _own_block(catalogue: Catalogue, name: str, address: IPv4Address) -> Iterator[Problem]:
    """A container's network is the /30 around it: the third address, and nobody else in it."""
    block = IPv4Network(f"{address}/30", strict=False)
    key = ("services", name, "address")
    if address != block[2]:
        text = f"{name}.address {address} must be its /30's third for podman; write {block[2]}"
        yield catalogue.problem(key, text)
        return
    for other, record in catalogue.services.items():
        inside = record.address and IPv4Address(record.address) in block
        if other != name and inside and record.present and record.runtime != "external":
            where = catalogue.at("services", other, "address")
            text = f"{name}.address {address} takes {block} for podman, where {other} is ({where})"
            yield catalogue.problem(key, f"{text}; choose one at least 4 away")


def ports(catalogue: Catalogue) -> Iterator[Problem]:
    """What listens on one address has one port each; the parts share the machine."""
    owners: dict[tuple[str, int], Key] = {}
    for section in ("services", "parts"):
        for name, record in getattr(catalogue, section).items():
            service = section == "services"
            if service and (record.runtime == "external" or not record.present):
                continue
            key = (section, name)
            if service and record.port is None and not catalogue.written(*key, "port"):
                text = f"{name}.port is missing; write the port it listens on, e.g. port: 8080"
                yield catalogue.problem((*key, "port"), text)
            address = str(record.address) if service else "the machine"
            # A program may show its metrics on its own port, so each port counts once.
            for field in ("port", "metrics_port"):
                port = getattr(record, field)
                if port is None or (field == "metrics_port" and port == record.port):
                    continue
                first = owners.setdefault((address, port), (*key, field))
                if first[:2] != key:
                    instead = f"choose another, e.g. {port + 1}"
                    text = catalogue.taken(f"{name}.port {port}", first, instead)
                    yield catalogue.problem((*key, field), text)


def published_names(catalogue: Catalogue) -> Iterator[Problem]:
    """Every name on the LAN is a good label, has one owner, and has something behind it."""
    owners: dict[str, Key] = {}
    for section in ("services", "parts"):
        for name, record in getattr(catalogue, section).items():
            for label, site in record.publish.items():
                key = (section, name, "publish", label)
                if not LABEL.fullmatch(label):
                    better = label.lower().replace("_", "-").strip("-.")
                    text = f"{name}.publish {label} is no DNS label; write e.g. {better}"
                    yield catalogue.problem(key, text)
                if label in owners:
                    instead = f"choose another, e.g. {label}2"
                    text = catalogue.taken(f"{name}.publish {label}", owners[label], instead)
                    yield catalogue.problem(key, text)
                owners.setdefault(label, key)
                if section == "parts" and record.port is None and not site.files:
                    text = f"{name}.publish {label} has nothing behind it; write a port or files"
                    yield catalogue.problem(key, text)


def plain_sites(catalogue: Catalogue) -> Iterator[Problem]:
    """What answers without HTTPS asks for no secret, and the bare address is one site's."""
    owner: Key | None = None
    for section in ("services", "parts"):
        for name, record in getattr(catalogue, section).items():
            for label, site in record.publish.items():
                if not site.plain:
                    continue
                key = (section, name, "publish", label, "plain")
                if site.auth != "lan":
                    text = f"{name}.publish {label}.plain would show secrets to who listens"
                    yield catalogue.problem(key, f"{text}; write auth: lan, or no plain")
                if owner:
                    text = f"{name}.publish {label}.plain: the bare address"
                    text = catalogue.taken(text, owner, "leave plain out here")
                    yield catalogue.problem(key, text)
                owner = owner or key


def published_ports(catalogue: Catalogue) -> Iterator[Problem]:
    """Ports opened on the LAN are ports, and each has one owner."""
    owners: dict[int, Key] = {}
    for name, record in catalogue.services.items():
        for text_port in record.publish_tcp:
            key = ("services", name, "publish_tcp", text_port)
            if not text_port.isdigit() or not 1 <= int(text_port) <= 65535:
                text = f"{name}.publish_tcp {text_port} is no port; write a number, e.g. 10300: []"
                yield catalogue.problem(key, text)
                continue
            port = int(text_port)
            if port in _HOUSE_PORTS:
                text = f"{name}.publish_tcp {port} is {_HOUSE_PORTS[port]}; choose another port"
                yield catalogue.problem(key, text)
            elif port in owners:
                instead = f"choose another, e.g. {port + 1}"
                text = catalogue.taken(f"{name}.publish_tcp {port}", owners[port], instead)
                yield catalogue.problem(key, text)
            owners.setdefault(port, key)

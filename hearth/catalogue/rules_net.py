"""Rules about the network: ranges, addresses, ports and published names."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import islice

from hearth.catalogue import schema
from hearth.catalogue.naming import LABEL, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue, Finding
from hearth.catalogue.values import ANY

_NARROWEST = 28
# What would let pages of the internet reach the house, or its secrets the internet.
_NOT_ANYWHERE = ("needs", "secrets", "publish", "publish_tcp", "scrapes")
NOT_SHARED = ("title", "uploads", "open", "closed", "user_files", "policy", "plain")
"""What only one of the records that share a name may have: it is then the site's."""
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


def addresses(catalogue: Catalogue) -> Iterator[Finding]:
    """Every instance has an address of its own in the range, other than the resolver's."""
    if not catalogue.machines:
        return
    network = IPv4Network(next(iter(catalogue.machines.values())).instances)
    if network.prefixlen > _NARROWEST:
        return
    # The third address of each /30, so that one word moves a service to Podman; the lowest stay
    # free for the house where there is room.
    hosts = [str(host) for host in islice(network.hosts(), 1, 254, 4)]
    taken = {record.address for record in catalogue.services.values()}
    free = next((host for host in (*hosts[2:], *hosts) if host not in taken), "a wider range")
    here = {n: r for n, r in catalogue.services.items() if r.here and r.present}
    known = {name: IPv4Address(r.address) for name, r in here.items() if r.address}
    owners: dict[IPv4Address, str] = {}
    for name, record in here.items():
        key = ("services", name, "address")
        if name not in known:
            yield key, f"{name}.address is missing; write address: {free}"
            continue
        address, text = known[name], f"{name}.address {known[name]}"
        if address not in network:
            yield key, f"{text} is outside {network}; choose one in it, e.g. {free}"
        elif address == network[1]:
            yield key, f"{text} is the resolver's; {another(free)}"
        elif address in (network[0], network[-1]):
            yield key, f"{text} is the edge of {network}; {another(free)}"
        else:
            if (owner := owners.setdefault(address, name)) != name:
                where = catalogue.at("services", owner, "address")
                yield key, f"{text} is also {owner}'s ({where}); {another(free)}"
            if record.runtime == "podman":
                yield from _own_block(catalogue, name, known)


def _own_block(catalogue: Catalogue, name: str, known: dict[str, IPv4Address]) -> Iterator[Finding]:
    """A container has the /30 around its address to itself, and the third address of it."""
    address, key = known[name], ("services", name, "address")
    block = IPv4Network(f"{address}/30", strict=False)
    if address != block[2]:
        yield key, f"{name}.address {address} must be its /30's third for podman; write {block[2]}"
        return
    for other, neighbour in known.items():
        if other != name and neighbour in block:
            where = catalogue.at("services", other, "address")
            text = f"{name}.address {address} takes {block} for podman, where {other} is ({where})"
            yield key, f"{text}; choose one at least 4 away"


def another(example: object) -> str:
    """Suggest another value."""
    return f"choose another, e.g. {example}"


def anywhere(catalogue: Catalogue) -> Iterator[Finding]:
    """One service at most reaches all of the internet, and it knows nothing worth sending there."""
    first: str | None = None
    for name, record in catalogue.services.items():
        if not (record.here and record.present and ANY in record.egress):
            continue
        key, text = ("services", name, "egress"), f"{name}.egress {ANY}"
        if first:
            where = catalogue.at("services", first, "egress")
            yield key, f"{text} is also {first}'s ({where}); only one service may have it"
        first = first or name
        has = [field for field in _NOT_ANYWHERE if getattr(record, field)]
        # These bring keys along.
        has += ["offers models"] * ("models" in record.offers)
        has += ["a consumer's key"] * (name in catalogue.consumers)
        for field in has:
            why = f"is only for a service without {field}"
            yield key, f"{text} {why}; remove that, or write host names"


def sites(catalogue: Catalogue) -> Iterator[Finding]:
    """A name on the LAN is a valid label with something behind it, and needs HTTPS for secrets."""
    for owner, record in catalogue.owners():
        for label, site in record.publish.items():
            key, text = (*owner, "publish", label), f"{owner[1]}.publish {label}"
            if not LABEL.fullmatch(label):
                better = label.lower().replace("_", "-").strip("-.")
                yield key, f"{text} is not a valid DNS label; write e.g. {better}"
            if owner[0] == "parts" and record.port is None:
                yield key, f"{text} has nothing behind it; write a port"
            if site.plain and site.auth != "lan":
                text += ".plain would send secrets unencrypted; write auth: lan, or no plain"
                yield (*key, "plain"), text
            if site.open and site.auth not in ("key", "house"):
                why = f"is for auth: key or house, and the auth of {label} is {site.auth}"
                yield (*key, "open"), f"{owner[1]}.publish {label}.open {why}; remove it"
            yield from _routes(catalogue, str(owner[1]), key, site)
            for field in ("session", "sign_in"):
                if site.auth != "own" and getattr(site, field):
                    why = f"is for auth: own, and the auth of {label} is {site.auth}"
                    yield (*key, field), f"{owner[1]}.publish {label}.{field} {why}; remove it"


def shared_names(catalogue: Catalogue) -> Iterator[Finding]:
    """Records share a name on the LAN only by paths of their own, each for callers with a key."""
    owners: dict[str, list[tuple[Key, schema.PublishRecord]]] = {}
    for owner, record in catalogue.owners():
        if isinstance(record, schema.ServiceRecord) and not record.present:
            continue
        for label, site in record.publish.items():
            key: Key = (*owner, "publish", label)
            for first, other in owners.setdefault(label, []):
                yield from _sharing(catalogue, (key, site), (first, other))
            owners[label].append((key, site))


def _sharing(
    catalogue: Catalogue,
    one: tuple[Key, schema.PublishRecord],
    first: tuple[Key, schema.PublishRecord],
) -> Iterator[Finding]:
    (key, site), (place, other) = one, first
    text = f"{key[1]}.publish {key[-1]}"
    also = f"is also {place[1]}'s ({catalogue.at(*place)})"
    if not (site.paths and other.paths):
        yield key, f"{text} {also}; {another(f'{key[-1]}2')}"
        return
    if site.auth != "key" or other.auth != "key":
        yield key, f"{text} {also}; only names with auth: key are shared; {another(f'{key[-1]}2')}"
    both = [any(getattr(record, name) for name in NOT_SHARED) for record in (site, other)]
    if all(both):
        yield key, f"{text} {also}; only one of them may have {', '.join(NOT_SHARED)}"
    for path in site.paths:
        if twice := next((known for known in other.paths if _overlap(path, known)), None):
            yield (*key, "paths"), f"{text}.paths {path} {also} as {twice}; keep it at one of them"


def _overlap(one: str, other: str) -> bool:
    """Return whether some path matches both patterns; the reverse proxy ignores case."""
    first, second = one.lower(), other.lower()
    if "*" in first or "*" in second:
        starts = first.partition("*")[0], second.partition("*")[0]
        return starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])
    return first == second


def _routes(
    catalogue: Catalogue, owner: str, key: Key, site: schema.PublishRecord
) -> Iterator[Finding]:
    """A route leads to a service or part that listens, behind the login for pages."""
    known = [str(name) for (_, name), record in catalogue.owners() if record.port]
    label = key[-1]
    for path, target in site.routes.items():
        text = f"{owner}.publish {label}.routes {path}"
        if site.auth != "house":
            yield (*key, "routes", path), f"{text} is for auth: house; write that, or remove it"
        if target not in known:
            hint = suggest(target, known)
            yield (*key, "routes", path), f"{text}: no service is named {target}; {hint}"

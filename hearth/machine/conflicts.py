"""What the house and its surroundings do not agree on, before anything is made or downloaded."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network

from hearth.catalogue.house import House, Model
from hearth.machine.environment import Claim, Surroundings
from hearth.machine.facts import Facts, Listener
from hearth.machine.preflight import EVERYWHERE, NEEDED_DISK_BYTES, OUR_UNITS

_GIB = 1024**3
_LOCAL = "inventory/local"
_LOOPBACK = frozenset({"127.0.0.1"})


def obstacles(
    house: House, facts: Facts, around: Surroundings, listeners: Iterable[Listener] = ()
) -> list[str]:
    """Everything that stands in the way, each in one line that says what to do."""
    found = [] if around.root else ["a house is built by root: say `sudo` before the command"]
    if not around.tun:
        found.append(
            "there is no /dev/net/tun, so this is a container or has a cut-down kernel, and cannot "
            "carry instances: use a whole machine, or `modprobe tun` and let its host pass it in"
        )
    if around.clock == "early":
        found.append(
            f"the clock shows {datetime.now(UTC):%Y-%m-%d}, before this Debian was made, so "
            "downloads and certificates would be refused: set it (`timedatectl set-time`) and "
            "install systemd-timesyncd"
        )
    found += [
        f"{path} is yours, and the house masks that name, so that Debian's own Caddy does not "
        "start: disable it, and move it to another name"
        for path in around.hidden
    ]
    found += _ranges(house, around)
    found += _own_ports(house, listeners)
    found += [line for works, line in _network(house, facts) if not works]
    # Later on it is this house that answers, and the models are here.
    if not facts.built:
        found += _claims(house.machine.domain, around.claims)
        found += _room(house, facts, around)
    return found + [line for served, line in _memory(house, facts) if not served]


def remarks(house: House, facts: Facts, around: Surroundings) -> list[str]:
    """What works all the same, and that nobody should have to guess."""
    found = [line for served, line in _memory(house, facts) if served]
    if around.clock == "free":
        found.append(
            "nobody sets this machine's clock, and with a wrong one devices refuse the house: "
            "install systemd-timesyncd"
        )
    return found + [line for works, line in _network(house, facts) if works]


def _network(house: House, facts: Facts) -> Iterator[tuple[bool, str]]:
    """What is odd about its network, one line each, and whether the house works all the same."""
    yield from _upstream(facts)
    yield from _public(house, facts)


def _upstream(facts: Facts) -> Iterator[tuple[bool, str]]:
    """That this machine knows nobody whom the house could ask, and whether all else works."""
    server, then = "192.168.1.1", "devices would find no name of the rest of the world"
    if facts.upstream_known == "kept":
        server, then = facts.upstream_dns[0], f"the house goes on asking {facts.upstream_dns[0]}"
    if facts.upstream_known != "known":
        seen = "no DNS server" if facts.upstream_known == "none" else "no DNS server but itself"
        yield (
            # Who answers on a bare machine itself would lose its port to the house.
            facts.built or facts.upstream_known != "itself",
            f"this machine knows {seen} now, so {then}: write your router's address, e.g. "
            f"upstream_dns: [{server}], into {_LOCAL}/machines.yml",
        )


def _public(house: House, facts: Facts) -> Iterator[tuple[bool, str]]:
    """That the LAN is the internet, and whether somebody has said so or a house stands there."""
    address = facts.lan_address
    if IPv4Address(address).is_global:
        yield (
            facts.built or house.machine.lan_address == address,
            f"{address}, this machine's address on its LAN, is one of the internet's, so anybody "
            "there is on the LAN: put the house behind a router; where a firewall of yours stands "
            f"before it, write lan_address: {address} into {_LOCAL}/machines.yml",
        )


def _ranges(house: House, around: Surroundings) -> Iterator[str]:
    ours = IPv4Network(house.machine.instances)
    for interface, range_ in around.networks:
        if IPv4Network(range_, strict=False).overlaps(ours):
            yield (
                f"{ours}, the range for instances, is in use on this machine: {interface} has "
                f"{range_}: write another one, e.g. instances: 172.29.30.0/24, into "
                f"{_LOCAL}/machines.yml (`hearth check` then names the addresses to change)"
            )


def _own_ports(house: House, listeners: Iterable[Listener]) -> Iterator[str]:
    ports = {part.port: part.name for part in house.parts.values() if part.url}
    for item in listeners:
        part = ports.get(item.port)
        open_ = item.address in EVERYWHERE | _LOOPBACK
        if item.protocol == "tcp" and part and open_ and not item.holder.startswith(OUR_UNITS):
            yield (
                f"port {item.port}/tcp is held by {item.holder or 'another program'}; the part "
                f"{part} needs it: stop that program, or give {part} another port in "
                f"{_LOCAL}/services.yml"
            )


def _claims(domain: str, claims: Iterable[Claim]) -> Iterator[str]:
    first: dict[str, Claim] = {}
    for claim in claims:
        first.setdefault(claim.server, claim)
    for claim in first.values():
        yield (
            f"{claim.server} answers for names in {domain} already ({claim.name} is "
            f"{claim.address} there), and a domain has one resolver: write another one, e.g. "
            f"domain: home.arpa, into {_LOCAL}/machines.yml, or take those names out of it"
        )


def _room(house: House, facts: Facts, around: Surroundings) -> Iterator[str]:
    """Each disk has room for the models that will come to it."""
    on_disk: dict[str, dict[str, int]] = {}
    for model in house.models.values():
        if model.usable and model.download_bytes and (folder := _folder(house, model)):
            on_disk.setdefault(folder, {})[model.name] = model.download_bytes
    for folder, sizes in on_disk.items():
        free = facts.disk_free_bytes if folder == "/var" else around.free.get(folder, 0)
        spare = NEEDED_DISK_BYTES if folder == "/var" else 0
        # Where even the house itself has no room, that is said already.
        if free < spare or sum(sizes.values()) + spare <= free:
            continue
        biggest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        named = ", ".join(f"{name} {sizes[name] / _GIB:.1f}" for name in biggest)
        besides = f", besides {spare // _GIB} GiB for programs" if spare else ""
        yield (
            f"{folder} has {free / _GIB:.1f} GiB free, and the models take "
            f"{sum(sizes.values()) / _GIB:.1f} GiB{besides} (the biggest: {named}): free some, "
            f"name a folder on another disk (`from:` in the service's data), or take models out in "
            f"{_LOCAL}/models.yml and aliases.yml"
        )


def _folder(house: House, model: Model) -> str | None:
    """The disk that a model comes to; None for one that nobody downloads."""
    if model.program:
        return "/var"
    service = house.services.get(model.service or "")
    if service is None or not model.pulled:
        return None
    return next((volume.from_folder for volume in service.volumes if volume.from_folder), "/var")


def own_folders(house: House) -> list[str]:
    """The folders of the person's own that models come to."""
    used = {_folder(house, model) for model in house.models.values() if model.usable}
    return sorted(folder for folder in used if folder not in (None, "/var"))


def _memory(house: House, facts: Facts) -> Iterator[tuple[bool, str]]:
    """Each member that this machine cannot load, and whether its alias has another one."""
    for alias in house.aliases.values():
        big = [name for name in alias.members if _needs(house.models[name]) > facts.memory_bytes]
        # A member in the cloud may come with its key.
        served = alias.cloud or len(big) < len(alias.members)
        end = (
            f"{alias.name} does without it"
            if served
            else f"{alias.name} has no other: give it a smaller one in {_LOCAL}/aliases.yml"
        )
        for name in big:
            yield (
                served,
                f"{name} takes {_needs(house.models[name]) / _GIB:.1f} GiB of memory and this "
                f"machine has {facts.memory_bytes / _GIB:.1f} GiB: {end}",
            )


def _needs(model: Model) -> int:
    return (model.memory_bytes or 0) if model.local else 0

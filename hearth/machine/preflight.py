"""Refuse a machine that cannot become this house, before anything is changed or downloaded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network

from hearth.catalogue.house import House, Model, Service
from hearth.machine.environment import Claim, Environment
from hearth.machine.facts import Facts, Graphics, Listener

# Hearth's own programs from an earlier run may hold the ports.
_OUR_UNITS = "hearth-"
_EVERYWHERE = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104  compared with, not bound
_GIB = 1024**3
_NEEDED_DISK_BYTES = 6 * _GIB
# Debian builds NVIDIA's driver on the machine and signs it; the firmware must have the key.
_LOCKED_OUT = (
    "there is an NVIDIA card without a driver, and Secure Boot is on, which blocks a driver "
    "that is not signed: install nvidia-driver, then run `mokutil --import "
    "/var/lib/dkms/mok.pub` and reboot, or turn Secure Boot off"
)
_LOCAL = "inventory/local"
_LOOPBACK = frozenset({"127.0.0.1"})


def choose_accelerator(wanted: str, seen: Graphics) -> str:
    """Return the accelerator for a record's `gpu` on this machine: cuda, vulkan, software, none."""
    if wanted != "auto":
        return wanted
    if seen.nvidia_card and seen.nvidia_tool:
        return "cuda"
    return "vulkan" if seen.render_nodes else "none"


def gpu_missing(wanted: str, seen: Graphics) -> bool:
    """Return whether a service that needs its GPU (`enabled: auto`) stays off on this machine."""
    missing = {
        "cuda": not (seen.nvidia_card and seen.nvidia_tool),
        "vulkan": not seen.render_nodes,
        "auto": choose_accelerator("auto", seen) == "none",
    }
    return missing.get(wanted, False)


def machine_warnings(
    services: Mapping[str, Service], facts: Facts, locked_out: bool = False
) -> list[str]:
    """Explain for each service with `gpu: auto` why it does not use a GPU."""
    seen, taken = facts.graphics, choose_accelerator("auto", facts.graphics)
    takes = f"gpu: auto takes {'the processor' if taken == 'none' else taken}"
    if locked_out and not seen.nvidia_card:
        why = f"{_LOCKED_OUT}; {takes}"
    elif seen.nvidia_card and not seen.nvidia_tool:
        why = (
            "there is an NVIDIA card, but not NVIDIA's package nvidia-container-toolkit, so "
            f"{takes}"
        )
    elif taken == "none":
        why = (
            f"there is no GPU here, so {takes}; llvmpipe, which Mesa offers "
            "without one, is a software device and not a GPU"
        )
    else:
        return []
    return [f"{name}: {why}" for name, service in services.items() if service.gpu == "auto"]


def machine_violations(
    services: Mapping[str, Service],
    facts: Facts,
    listeners: Sequence[Listener],
    locked_out: bool = False,
) -> list[str]:
    """Return everything about the machine that prevents a house, with a fix, one line each.

    `locked_out` is true where there is an NVIDIA card and Secure Boot is on.
    """
    found = []
    if facts.debian != "13":
        found.append(
            f"this machine runs Debian {facts.debian}; a house needs Debian 13 "
            "(a lab machine works on any host: scripts/up --lab)"
        )
    found += _port_problems(listeners, facts.lan_address)
    # Later, models may fill the same space.
    if not facts.built and facts.disk_free_bytes < _NEEDED_DISK_BYTES:
        found.append(
            f"/var has {facts.disk_free_bytes / _GIB:.1f} GiB free; images and programs need "
            f"{_NEEDED_DISK_BYTES // _GIB} GiB before the first model: free some"
        )
    for name, service in services.items():
        if service.runtime == "podman":
            found.append(
                f"{name} asks for runtime: podman, which is not supported yet: write incus"
            )
        found += _gpu_problems(name, service.gpu, facts.graphics, locked_out)
    return found


def _port_problems(listeners: Sequence[Listener], lan_address: str) -> Iterator[str]:
    # The resolver listens on the LAN and on the loopback. The reverse proxy listens on all
    # addresses, so the kernel requires the port to be free on each of them.
    resolver = _EVERYWHERE | {lan_address, "127.0.0.1", "::1"}
    wanted = {("udp", 53): resolver, ("tcp", 53): resolver, ("tcp", 80): None, ("tcp", 443): None}
    for item in listeners:
        where = wanted.get((item.protocol, item.port), frozenset())
        if (where is None or item.address in where) and not item.holder.startswith(_OUR_UNITS):
            on = "" if item.address in _EVERYWHERE else f" on {item.address}"
            yield (
                f"port {item.port}/{item.protocol} is held by {item.holder or 'another program'}"
                f"{on}; Hearth needs it for the house: stop that program, or change its port"
            )


def _gpu_problems(name: str, wanted: str, seen: Graphics, locked_out: bool) -> list[str]:
    if wanted == "vulkan" and not seen.render_nodes:
        why = (
            "this machine has no render node in /dev/dri; Mesa's llvmpipe is a software device and "
            "not a GPU: write gpu: auto, or gpu: software to use llvmpipe on purpose"
        )
    elif wanted != "cuda" or (seen.nvidia_card and seen.nvidia_tool):
        return []
    elif seen.nvidia_card:
        why = (
            "nvidia-container-cli is not there: install NVIDIA's package nvidia-container-toolkit, "
            "or write gpu: auto"
        )
    elif locked_out:
        why = f"{_LOCKED_OUT}, or write gpu: auto"
    else:
        why = (
            "/dev/nvidia0 is not there: install the NVIDIA driver (package nvidia-driver), or "
            "write gpu: auto"
        )
    return [f"{name} asks for gpu: {wanted}, and {why}"]


def house_violations(
    house: House, facts: Facts, environment: Environment, listeners: Iterable[Listener] = ()
) -> list[str]:
    """Return every conflict between house and machine, with a fix, one line each."""
    checks = {
        "only root can build a house: put `sudo` before the command": environment.root,
        "there is no /dev/net/tun, so this is a container or its kernel is reduced, and it cannot "
        "run instances: use a full machine, or run `modprobe tun` on the container's host and pass "
        "the device in": environment.tun,
        f"the clock shows {datetime.now(UTC):%Y-%m-%d}, before the release of this Debian, so "
        "downloads and certificates would be rejected: set it (`timedatectl set-time`) and install "
        "systemd-timesyncd": environment.clock != "early",
    }
    found = [line for line, good in checks.items() if not good]
    found += [
        f"{path} is a unit of yours, and the house masks that name to keep Debian's own Caddy "
        "from starting: disable the unit, and give it another name"
        for path in environment.hidden
    ]
    found += _ranges(house, environment)
    found += _own_ports(house, listeners)
    found += [line for works, line in _network(house, facts) if not works]
    # Later, this house itself answers for the domain, and the models are on the disk.
    if not facts.built:
        found += _claims(house.machine.domain, environment.claims)
        found += _room(house, facts, environment)
    return found + [line for served, line in _memory(house, facts) if not served]


def house_warnings(house: House, facts: Facts, environment: Environment) -> list[str]:
    """Return what deserves attention although the house works, one line each."""
    found = [line for served, line in _memory(house, facts) if served]
    if environment.clock == "free":
        found.append(
            "nothing synchronises this machine's clock, and devices reject the house's "
            "certificates when it is wrong: install systemd-timesyncd"
        )
    return found + [line for works, line in _network(house, facts) if works]


def _network(house: House, facts: Facts) -> Iterator[tuple[bool, str]]:
    """Yield each finding about the network, and whether the house works despite it."""
    known, address = facts.upstream_known, facts.lan_address
    server, then = "192.168.1.1", "devices could not resolve names outside the house"
    if known == "kept":
        server, then = facts.upstream_dns[0], f"the house keeps using {facts.upstream_dns[0]}"
    if known != "known":
        seen = "no DNS server" if known == "none" else "no DNS server except itself"
        yield (
            # A resolver that already runs on the machine would lose its port to the house.
            facts.built or known != "itself",
            f"this machine has {seen}, so {then}: write your router's address, e.g. "
            f"upstream_dns: [{server}], into {_LOCAL}/machines.yml",
        )
    if IPv4Address(address).is_global:
        yield (
            facts.built or house.machine.lan_address == address,
            f"{address}, this machine's LAN address, is a public one, so the whole internet would "
            "be on the LAN: put the house behind a router; if a firewall of yours protects it, "
            f"write lan_address: {address} into {_LOCAL}/machines.yml",
        )


def _ranges(house: House, environment: Environment) -> Iterator[str]:
    ours = IPv4Network(house.machine.instances)
    for interface, range_ in environment.networks:
        if IPv4Network(range_, strict=False).overlaps(ours):
            yield (
                f"{ours}, the range for instances, is in use on this machine ({interface} has "
                f"{range_}): write another one, e.g. instances: 172.29.30.0/24, into "
                f"{_LOCAL}/machines.yml (`hearth check` then names the addresses to change)"
            )


def _own_ports(house: House, listeners: Iterable[Listener]) -> Iterator[str]:
    ports = {part.port: part.name for part in house.parts.values() if part.url}
    for item in listeners:
        part = ports.get(item.port)
        open_ = item.address in _EVERYWHERE | _LOOPBACK
        if item.protocol == "tcp" and part and open_ and not item.holder.startswith(_OUR_UNITS):
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
            f"{claim.server} already answers for names in {domain} ({claim.name} is "
            f"{claim.address} there), and a domain has one resolver: write another domain, e.g. "
            f"domain: home.arpa, into {_LOCAL}/machines.yml, or remove those names from "
            f"{claim.server}"
        )


def _room(house: House, facts: Facts, environment: Environment) -> Iterator[str]:
    """Yield each disk that is too small for the models that will be stored on it."""
    on_disk: dict[str, dict[str, int]] = {}
    for model in house.models.values():
        if model.usable and model.download_bytes and (folder := _folder(house, model)):
            on_disk.setdefault(folder, {})[model.name] = model.download_bytes
    for folder, sizes in on_disk.items():
        free = facts.disk_free_bytes if folder == "/var" else environment.free_bytes.get(folder, 0)
        spare = _NEEDED_DISK_BYTES if folder == "/var" else 0
        # A disk without room even for the programs has been reported already.
        if free < spare or sum(sizes.values()) + spare <= free:
            continue
        biggest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        named = ", ".join(f"{name} {sizes[name] / _GIB:.1f}" for name in biggest)
        besides = f", plus {spare // _GIB} GiB for programs" if spare else ""
        yield (
            f"{folder} has {free / _GIB:.1f} GiB free, and the models need "
            f"{sum(sizes.values()) / _GIB:.1f} GiB{besides} (the largest: {named}): free some "
            "space, choose a folder on another disk (`from_folder:` in the service's data), or "
            f"remove models in {_LOCAL}/models.yml and aliases.yml"
        )


def _folder(house: House, model: Model) -> str | None:
    """Return the disk that a model is stored on; None for one that is not downloaded."""
    if model.program:
        return "/var"
    service = house.services.get(model.service or "")
    if service is None or not model.pulled:
        return None
    return next((volume.from_folder for volume in service.volumes if volume.from_folder), "/var")


def own_folders(house: House) -> list[str]:
    """Return the user's own folders that models are stored in."""
    used = {_folder(house, model) for model in house.models.values() if model.usable}
    return sorted(folder for folder in used if folder not in (None, "/var"))


def _memory(house: House, facts: Facts) -> Iterator[tuple[bool, str]]:
    """Yield each member that this machine cannot load, and whether its alias has another one."""
    for alias in house.aliases.values():
        big = [name for name in alias.members if _needs(house.models[name]) > facts.memory_bytes]
        # A cloud member may become usable with its key.
        served = alias.cloud or len(big) < len(alias.members)
        end = (
            f"{alias.name} does not use it"
            if served
            else f"{alias.name} has no other model: add a smaller one in {_LOCAL}/aliases.yml"
        )
        for name in big:
            yield (
                served,
                f"{name} needs {_needs(house.models[name]) / _GIB:.1f} GiB of memory and this "
                f"machine has {facts.memory_bytes / _GIB:.1f} GiB: {end}",
            )


def _needs(model: Model) -> int:
    return (model.memory_bytes or 0) if model.local else 0

"""Reject a machine that cannot become this house, before anything is changed or downloaded."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from hearth.catalogue import memory_shortage
from hearth.catalogue.house import House, Model
from hearth.machine.environment import UNITS, Environment, model_folder
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
_CDI_TOOL = Path("/usr/bin/nvidia-ctk")
# Whether the house works all the same, and a line with the fix.
Finding = tuple[bool, str]


def choose_accelerator(wanted: str, seen: Graphics) -> str:
    """Return the accelerator for a record's `gpu` on this machine: cuda, vulkan, software, none."""
    if wanted != "auto":
        return wanted
    return next((kind for kind in ("cuda", "vulkan") if seen.has(kind)), "none")


def violations_and_warnings(
    house: House, facts: Facts, environment: Environment
) -> tuple[list[str], list[str]]:
    """Return what prevents the house here, and what deserves attention although it works.

    Each is one line, with its fix.
    """
    checks = {
        f"this machine runs Debian {facts.debian}; a house needs Debian 13 "
        "(a lab machine works on any host: scripts/up --lab)": facts.debian == "13",
        "only root can build a house: put `sudo` before the command": environment.root,
        "there is no /dev/net/tun, so this is a container or its kernel is reduced, and it cannot "
        "run instances: use a full machine, or run `modprobe tun` on the container's host and pass "
        "the device in": environment.tun,
        f"the clock shows {datetime.now(UTC):%Y-%m-%d}, before the release of this Debian, so "
        "downloads and certificates would be rejected: set it (`timedatectl set-time`) and install "
        "systemd-timesyncd": environment.clock != "early",
        **{
            f"/{UNITS}/{unit} is a unit of yours, and the house masks that name to keep Debian's "
            "own from starting: disable the unit, and give it another name": False
            for unit in environment.own_units
        },
        # Later, models may fill the same space.
        f"/var has {facts.disk_free_bytes / _GIB:.1f} GiB free; images and programs need "
        f"{_NEEDED_DISK_BYTES // _GIB} GiB before the first model: free some": facts.built
        or facts.disk_free_bytes >= _NEEDED_DISK_BYTES,
    }
    violations = [line for line, good in checks.items() if not good]
    taken = taken_ports(house, facts.lan_address, environment.listeners)
    violations += [*(line for _, line in taken), *_ranges(house, environment)]
    # Later, this house itself answers for the domain, and the models are on the disk.
    if not facts.built:
        violations += [*_claims(house, environment), *_room(house, facts, environment)]
    if shortage := memory_shortage(house.services.values(), facts.memory_bytes):
        violations.append(shortage)
    findings = [*_gpus(house, facts.graphics, environment.locked_out)]
    findings += [
        *_network(house, facts),
        *_memory(house, facts),
        *_containers(house, facts.graphics),
    ]
    # In a house that is built, `hearth status` shows whether packets pass.
    findings += [(facts.built, line) for line in environment.firewall_problems]
    if environment.clock == "free":
        clock = (
            "nothing synchronises this machine's clock, and devices reject the house's "
            "certificates when it is wrong: install systemd-timesyncd"
        )
        findings.append((True, clock))
    violations += [line for works, line in findings if not works]
    return violations, [line for works, line in findings if works]


def taken_ports(
    house: House, lan_address: str, listeners: Iterable[Listener]
) -> Iterator[tuple[int, str]]:
    """Yield each port of the house that another program holds, and a line with the fix."""
    wanted: dict[tuple[str, int], tuple[frozenset[str] | None, str]] = {
        ("tcp", part.port): (
            _EVERYWHERE | {part.address or "127.0.0.1"},
            f"the part {part.name} needs it: stop that program, or give {part.name} another port "
            f"in {_LOCAL}/services.yml",
        )
        for part in house.parts.values()
        if part.url and part.port
    }
    # The resolver listens on the LAN and on the loopback. The reverse proxy listens on all
    # addresses, so the kernel requires the port to be free on each of them.
    resolver = _EVERYWHERE | {lan_address, "127.0.0.1", "::1"}
    fix = "Hearth needs it for the house: stop that program, or change its port"
    wanted |= dict.fromkeys((("udp", 53), ("tcp", 53)), (resolver, fix))
    wanted |= dict.fromkeys((("tcp", 80), ("tcp", 443)), (None, fix))
    for item in listeners:
        addresses, fix = wanted.get((item.protocol, item.port), (frozenset(), ""))
        ours = item.holder.startswith(_OUR_UNITS)
        if not ours and (addresses is None or item.address in addresses):
            on = "" if item.address in _EVERYWHERE else f" on {item.address}"
            by = item.holder or "another program"
            yield item.port, f"port {item.port}/{item.protocol} is held by {by}{on}; {fix}"


def _gpus(house: House, seen: Graphics, locked_out: bool) -> Iterator[Finding]:
    """Yield each service that misses its GPU, or does not use one although it is `auto`.

    `locked_out` is true where there is an NVIDIA card and Secure Boot is on.
    """
    taken = choose_accelerator("auto", seen)
    takes = f"gpu: auto takes {'the processor' if taken == 'none' else taken}"
    if locked_out and not seen.nvidia_card:
        cuda, auto = f"{_LOCKED_OUT}, or", f"{_LOCKED_OUT}; {takes}"
    elif seen.nvidia_card:
        package = "NVIDIA's package nvidia-container-toolkit"
        cuda = f"nvidia-container-cli is not there: install {package}, or"
        auto = f"there is an NVIDIA card, but not {package}, so {takes}"
    else:
        cuda = "/dev/nvidia0 is not there: install the NVIDIA driver (package nvidia-driver), or"
        auto = (
            f"there is no GPU here, so {takes}; llvmpipe, which Mesa offers without one, is a "
            "software device and not a GPU"
        )
        auto = auto if taken == "none" else ""
    missing = {
        "cuda": f"{cuda} write gpu: auto",
        "vulkan": "this machine has no render node in /dev/dri; Mesa's llvmpipe is a software "
        "device and not a GPU: write gpu: auto, or gpu: software to use llvmpipe on purpose",
    }
    for name, service in house.services.items():
        if service.gpu == "auto" and taken != "cuda" and auto:
            yield True, f"{name}: {auto}"
        if service.gpu in missing and not seen.has(service.gpu):
            yield False, f"{name} asks for gpu: {service.gpu}, and {missing[service.gpu]}"


def _containers(house: House, seen: Graphics) -> Iterator[Finding]:
    """Yield each service in Podman that needs a card's tool."""
    cdi_missing = seen.has("cuda") and not _CDI_TOOL.exists()
    for name, service in house.services.items():
        if service.runtime == "podman" and service.gpu in ("auto", "cuda") and cdi_missing:
            yield (
                False,
                f"{name} runs in Podman on an NVIDIA card, and nvidia-ctk, which describes "
                "the card for it, is not there: install NVIDIA's package nvidia-container-toolkit, "
                "or write gpu: none",
            )


def _network(house: House, facts: Facts) -> Iterator[Finding]:
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


def _claims(house: House, environment: Environment) -> Iterator[str]:
    domain = house.machine.domain
    for server, (name, address) in environment.claims.items():
        yield (
            f"{server} already answers for names in {domain} ({name} is {address} there), and a "
            "domain has one resolver: write another domain, e.g. domain: home.arpa, into "
            f"{_LOCAL}/machines.yml, or remove those names from {server}"
        )


def _room(house: House, facts: Facts, environment: Environment) -> Iterator[str]:
    """Yield each disk that is too small for the models that will be stored on it."""
    on_disk: dict[str, dict[str, int]] = {}
    for model in house.models.values():
        if model.usable and model.download_bytes and (folder := model_folder(house, model)):
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


def _memory(house: House, facts: Facts) -> Iterator[Finding]:
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

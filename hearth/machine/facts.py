"""Read what Hearth needs to know of a machine: network, memory, disk, graphics, listeners."""

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Literal

from hearth.catalogue.house import Machine
from hearth.machine import converged
from hearth.paths import PROGRAMS

# Kernel drivers that render in software: their nodes are not accelerators.
SOFTWARE_DRIVERS = frozenset({"vgem", "vkms", "virtio_gpu", "simpledrm", "bochs-drm", "ast"})
# NVIDIA's driver has its own Vulkan, which instances do not have; they use CUDA instead.
UNUSABLE_DRIVERS = SOFTWARE_DRIVERS | {"nvidia"}
# Prefix of the machine's network interfaces to instances.
LINKS = "to-"
# Configuration of the house's resolver, with its upstream servers.
RESOLVER_FILE = "etc/hearth/dnsmasq.conf"
# systemd-resolved writes its own stub into resolv.conf and the real servers beside it.
_FILES = ("run/systemd/resolve/resolv.conf", "etc/resolv.conf")

# `known`: configured, or read from the machine; `kept`: as before, since the machine has no other
# server now; `itself`: the machine's only server is the house; `none`: it has none.
Known = Literal["known", "kept", "itself", "none"]
# Debian's packages that the house depends on, with the names that people know.
_SHOWN_PACKAGES = {"incus-base": "incus", "caddy": "caddy", "dnsmasq-base": "dnsmasq"}
_VENDORS = {"0x1002": "AMD", "0x10de": "NVIDIA", "0x8086": "Intel", "0x1af4": "virtio"}


class FactsError(RuntimeError):
    """The machine could not be read; the text names the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class Graphics:
    """What this machine can compute on besides its processor; the nodes are paths of devices."""

    render_nodes: tuple[str, ...]
    nvidia_card: bool
    nvidia_tool: bool

    @property
    def any_card(self) -> bool:
        """Whether there is one, usable by services or not."""
        return self.nvidia_card or bool(self.render_nodes)

    def has(self, gpu: str) -> bool:
        """Return whether a service with this `gpu` in its record can have it here."""
        cuda, vulkan = self.nvidia_card and self.nvidia_tool, bool(self.render_nodes)
        return {"cuda": cuda, "vulkan": vulkan, "auto": cuda or vulkan}.get(gpu, True)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the machine is; addresses as text, sizes in bytes."""

    debian: str
    memory_bytes: int
    disk_free_bytes: int
    built: bool
    lan_interface: str
    lan_address: str
    upstream_dns: tuple[str, ...]
    graphics: Graphics
    upstream_known: Known = "known"
    lan_networks: tuple[str, ...] = ()


def read_facts(record: Machine, root: Path = Path("/")) -> Facts:
    """Read the facts of this machine; a value in its record wins over one that is read.

    `root` is another file system in tests.
    """
    interface, address = lan(record.lan_interface, record.lan_address)
    servers, known = choose_upstream(record, [*addresses(), address], root)
    return Facts(
        debian=debian_version(root),
        memory_bytes=memory_bytes(root),
        disk_free_bytes=shutil.disk_usage(root / "var").free,
        built=(root / "var/lib/hearth/programs").is_dir(),
        lan_interface=interface,
        lan_address=address,
        upstream_dns=servers,
        upstream_known=known,
        lan_networks=networks_of(interface),
        graphics=graphics(root),
    )


def graphics(root: Path = Path("/")) -> Graphics:
    """Look for cards, and for the tool that passes NVIDIA's cards into instances."""
    return Graphics(
        render_nodes=tuple(render_nodes(root)),
        nvidia_card=(root / "dev/nvidia0").exists(),
        nvidia_tool=shutil.which("nvidia-container-cli") is not None,
    )


def has_card(root: Path = Path("/")) -> bool:
    """Return whether the kernel drives a card; also for a program whose /dev is private."""
    drivers = {*_drivers(root).values()}
    return bool(drivers - SOFTWARE_DRIVERS) or (root / "sys/bus/pci/drivers/nvidia").is_dir()


def render_nodes(root: Path) -> Iterable[str]:
    """Yield every render node that Mesa's Vulkan can compute on, in order."""
    for name in driven_nodes(root):
        if (root / "dev/dri" / name).exists():
            yield f"/dev/dri/{name}"


def driven_nodes(root: Path) -> Iterable[str]:
    """Return the names of the same without looking into /dev, which may be private."""
    return (name for name, driver in _drivers(root).items() if driver not in UNUSABLE_DRIVERS)


def _drivers(root: Path) -> dict[str, str]:
    """Return the driver of each render node by the kernel's own list, in order."""
    links = sorted((root / "sys/class/drm").glob("renderD*"))
    return {link.name: (link / "device/driver").resolve().name for link in links}


def graphics_devices(root: Path) -> list[Path]:
    """Return the graphics devices on the PCI bus, used or not."""
    devices = sorted((root / "sys/bus/pci/devices").glob("*"))
    return [device for device in devices if text_of(device / "class").startswith("0x03")]


def debian_version(root: Path) -> str:
    """Return the major version of Debian as text, or `not Debian`."""
    values = dict(
        line.partition("=")[::2] for line in (root / "etc/os-release").read_text().splitlines()
    )
    return values.get("VERSION_ID", "").strip('"') if values.get("ID") == "debian" else "not Debian"


def cpu_name(root: Path) -> str:
    """Return the processor's name."""
    for line in (root / "proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_bytes(root: Path, what: str = "MemTotal") -> int:
    """Return the size of the machine's memory, or what the kernel estimates of it."""
    lines = (line.split() for line in (root / "proc/meminfo").read_text().splitlines())
    return next(int(words[1]) * 1024 for words in lines if words[0] == f"{what}:")


def lan(interface: str = "auto", address: str = "auto") -> tuple[str, str]:
    """Return interface and IPv4 address of the LAN: those given, or those of the default route.

    Raises:
        FactsError: there is no such interface, address or route.
    """
    if interface == "auto":
        routes = ip("-4", "route", "show", "default")
        if not routes:
            raise FactsError(
                "this machine has no default IPv4 route: connect it, or write lan_interface, the "
                "interface of your LAN, into inventory/local/machines.yml"
            )
        interface = str(routes[0]["dev"])
    found = address_of(interface)
    return interface, found if address == "auto" else address


def address_of(interface: str) -> str:
    """Return the first global IPv4 address of an interface."""
    links = {str(link["ifname"]): link for link in ip("address", "show")}
    if interface not in links:
        # A link to an instance is not part of the LAN.
        others = ", ".join(name for name in links if name != "lo" and not name.startswith(LINKS))
        raise FactsError(
            f"this machine has no interface {interface}, but {others}: write one of these, or "
            "auto, as lan_interface into inventory/local/machines.yml"
        )
    for entry in links[interface].get("addr_info", []):
        if (entry["family"], entry["scope"]) == ("inet", "global"):
            return str(entry["local"])
    raise FactsError(f"interface {interface} has no IPv4 address; give it one, or name another")


def networks_of(interface: str) -> tuple[str, ...]:
    """Return the IPv4 networks at an interface, which is usually one."""
    found = [
        IPv4Interface(f"{entry['local']}/{entry['prefixlen']}").network
        for link in ip("address", "show")
        if link["ifname"] == interface
        for entry in link.get("addr_info", [])
        if entry["family"] == "inet"
    ]
    return tuple(dict.fromkeys(map(str, found)))


def addresses(interface: str | None = None) -> list[str]:
    """Return every IPv4 and IPv6 address of the machine, or of one interface."""
    return [
        str(entry["local"])
        for link in ip("address", "show")
        if interface in (None, link["ifname"])
        for entry in link.get("addr_info", [])
    ]


def ip(*words: str) -> list[dict[str, Any]]:
    """Return the JSON output of `ip`."""
    return [item for item in json.loads(_output("/usr/sbin/ip", "-j", *words) or "[]") if item]


def _output(*argv: str) -> str:
    return subprocess.run(  # noqa: S603  fixed words, no shell
        argv, capture_output=True, text=True, timeout=10, check=True
    ).stdout


def choose_upstream(
    record: Machine, own: Collection[str], root: Path = Path("/")
) -> tuple[tuple[str, ...], Known]:
    """Return the record's DNS servers, or else the machine's, without the house itself.

    A router that announces the house as the network's DNS server announces it to the house's
    machine, too. The resolver would then query itself and resolve no outside name.
    `own` are addresses of the machine.
    """
    ours = [*own, record.resolver_address, "127.0.0.1", "::1"]
    named = record.upstream_dns
    lists = [named] if named != "auto" else [_nameservers(root / name, ours) for name in _FILES]
    for servers in lists:
        if others := without_own(servers, ours):
            return others, "known"
    if before := without_own(configured_upstream(root), ours):
        return before, "kept"
    return (), "itself" if any(lists) else "none"


def without_own(servers: Iterable[str], own: Iterable[str]) -> tuple[str, ...]:
    """Return the servers that are not this machine."""
    ours = {_address(one) for one in own}
    return tuple(server for server in servers if _address(server) not in ours)


def configured_upstream(root: Path = Path("/")) -> list[str]:
    """Return the upstream servers in the resolver's present configuration."""
    words = (line.partition("=") for line in text_of(root / RESOLVER_FILE).splitlines())
    return [server for key, _, server in words if key == "server" and _address(server)]


def nameservers(root: Path = Path("/")) -> list[str]:
    """Return the DNS servers that the machine itself uses, without loopback addresses."""
    return [server for name in _FILES for server in _nameservers(root / name, ())]


def _nameservers(path: Path, ours: Iterable[str]) -> list[str]:
    """Return the servers of a resolv.conf, without loopback addresses that are not in `ours`."""
    own = {_address(one) for one in ours}
    rows = (line.split() for line in text_of(path).splitlines())
    found = [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver"]
    return [
        server
        for server in found
        if (address := _address(server)) and (address in own or not address.is_loopback)
    ]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address without its zone; None where the text is not an address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def text_of(path: Path) -> str:
    """Return the text of a file without the white space around it; empty where there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Listener:
    """One open port of the machine and the unit (or program) that holds it."""

    protocol: str
    address: str
    port: int
    holder: str


def listeners() -> list[Listener]:
    """Return every listening socket of this machine, as `ss` reports it."""
    found = []
    for line in _output("/usr/bin/ss", "-Hlntup").splitlines():
        protocol, _, _, _, local, *_ = line.split()
        address, _, port = local.rpartition(":")
        address = address.partition("%")[0].strip("[]")
        pid = re.search(r"pid=(\d+)", line)
        found.append(Listener(protocol, address, int(port), _unit_of(pid[1]) if pid else ""))
    return found


def _unit_of(pid: str) -> str:
    """Return the systemd unit that a process belongs to, or the program's name."""
    try:
        units = re.findall(r"([^/\n]+\.service)", Path(f"/proc/{pid}/cgroup").read_text())
        return units[-1] if units else Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """The machine behind the figures; `gpus` are its graphics devices, used or not."""

    name: str
    system: str
    kernel: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: list[str]


def machine() -> MachineInfo:
    """Describe this machine."""
    release = platform.freedesktop_os_release()
    version = text_of(Path("/etc/debian_version"))
    return MachineInfo(
        name=platform.node(),
        system=f"{release.get('NAME', 'Linux')} {version or release.get('VERSION_ID', '')}".strip(),
        kernel=platform.release(),
        cpu=cpu_name(Path("/")),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=memory_bytes(Path("/")),
        gpus=gpus(Path("/")),
    )


def gpus(root: Path) -> list[str]:
    """Return the graphics devices on the PCI bus, as `VENDOR DEVICE (driver)`."""
    found = []
    for device in graphics_devices(root):
        vendor, model = text_of(device / "vendor"), text_of(device / "device")
        driver = device / "driver"
        name = driver.resolve().name if driver.exists() else "no driver"
        found.append(f"{_VENDORS.get(vendor, vendor)} {model.removeprefix('0x')} ({name})")
    return found


def versions() -> dict[str, str]:
    """Return the versions of Debian's packages and of the programs that Hearth installed.

    The version of an installed program is the digest that its `current` link points to.
    """
    found = {}
    with contextlib.suppress(OSError):
        installed = converged.debian_versions([*_SHOWN_PACKAGES])
        found = {_SHOWN_PACKAGES[package]: version for package, version in installed.items()}
    for name, digest in program_digests().items():
        found[f"{name} (files)"] = digest[:16]
    return found


def program_digests(programs: Path = PROGRAMS) -> dict[str, str]:
    """Return the digest of each installed program, to which its `current` link points."""
    links = sorted(programs.glob("*/current"))
    return {link.parent.name: link.resolve().name for link in links}


def drivers(root: Path = Path("/")) -> dict[str, str]:
    """Return the version of each graphics driver in use: its own, or that of the kernel."""
    used = (device / "driver" for device in graphics_devices(root))
    names = sorted({driver.resolve().name for driver in used if driver.exists()})
    kernel = f"Linux {platform.release()}"
    return {name: text_of(root / "sys/module" / name / "version") or kernel for name in names}

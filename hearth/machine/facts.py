"""Read from the machine only what Hearth decides by: wire, memory, disk, graphics, listeners."""

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearth.machine.upstream_dns import Known, choose

# Kernel drivers that draw in software: a node of theirs is no accelerator.
SOFTWARE_DRIVERS = frozenset({"vgem", "vkms", "virtio_gpu", "simpledrm", "bochs-drm", "ast"})
# NVIDIA's own driver brings its own Vulkan, which is not in an instance; CUDA is its way in.
NOT_MESA_DRIVERS = frozenset({"nvidia"})
# The machine's ends of the instances' wires.
WIRES = "to-"


class FactsError(RuntimeError):
    """The machine could not be read; the text says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class RenderNode:
    """One DRM render node: a graphics device that programs can compute on."""

    path: str
    driver: str
    gid: int


@dataclass(frozen=True, slots=True)
class Graphics:
    """What this machine can compute on besides its processor."""

    render_nodes: tuple[RenderNode, ...]
    nvidia_card: bool
    nvidia_tool: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What the machine is; addresses as text, sizes in bytes."""

    debian: str
    kernel: str
    cpu: str
    cpus: int
    memory_bytes: int
    disk_free_bytes: int
    built: bool
    lan_interface: str
    lan_address: str
    upstream_dns: tuple[str, ...]
    render_nodes: tuple[RenderNode, ...]
    nvidia_card: bool
    nvidia_tool: bool
    python: str
    upstream_known: Known = "known"

    @classmethod
    def from_vars(cls, plain: Mapping[str, Any]) -> "Facts":
        """Read back what `as_vars` gave to Ansible."""
        nodes = tuple(RenderNode(**node) for node in plain["render_nodes"])
        dns = tuple(plain["upstream_dns"])
        return cls(**{**plain, "render_nodes": nodes, "upstream_dns": dns})

    def as_vars(self) -> dict[str, Any]:
        """Plain values for Ansible and JSON."""
        return asdict(self)


def read_facts(record: Mapping[str, Any], root: Path = Path("/")) -> Facts:
    """Read the facts of this machine; what its record names wins, `auto` there leaves it to us.

    `root` is another one's file system in tests.
    """
    interface, address = lan(record["lan_interface"], record["lan_address"])
    upstream = choose(record, [*addresses(), address], root)
    seen = graphics(root)
    return Facts(
        debian=debian_version(root),
        kernel=platform.release(),
        cpu=cpu_name(root),
        cpus=os.cpu_count() or 1,
        memory_bytes=memory_bytes(root),
        disk_free_bytes=shutil.disk_usage(root / "var").free,
        built=(root / "var/lib/hearth/programs").is_dir(),
        lan_interface=interface,
        lan_address=address,
        upstream_dns=upstream.servers,
        upstream_known=upstream.known,
        render_nodes=seen.render_nodes,
        nvidia_card=seen.nvidia_card,
        nvidia_tool=seen.nvidia_tool,
        python=".".join(platform.python_version_tuple()[:2]),
    )


def graphics(root: Path = Path("/")) -> Graphics:
    """Look for cards, and for the tool that hands NVIDIA's into instances."""
    return Graphics(
        render_nodes=tuple(render_nodes(root)),
        nvidia_card=(root / "dev/nvidia0").exists(),
        nvidia_tool=shutil.which("nvidia-container-cli") is not None,
    )


def debian_version(root: Path) -> str:
    """The major version of Debian as text, or `not Debian`."""
    values = dict(
        line.partition("=")[::2] for line in (root / "etc/os-release").read_text().splitlines()
    )
    return values.get("VERSION_ID", "").strip('"') if values.get("ID") == "debian" else "not Debian"


def cpu_name(root: Path) -> str:
    """The processor's name as the kernel tells it."""
    for line in (root / "proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_bytes(root: Path) -> int:
    """All memory of the machine."""
    first = (root / "proc/meminfo").read_text().splitlines()[0]
    return int(first.split()[1]) * 1024


def lan(interface: str = "auto", address: str = "auto") -> tuple[str, str]:
    """Interface and IPv4 address of the LAN: those named, or those that carry the default route.

    Raises:
        FactsError: Nobody could reach the house there.
    """
    if interface == "auto":
        routes = ip("-4", "route", "show", "default")
        if not routes:
            raise FactsError(
                "this machine has no default IPv4 route; connect it, or write lan_interface, the "
                "wire of your LAN, into inventory/local/machines.yml"
            )
        interface = str(routes[0]["dev"])
    found = address_of(interface)
    return interface, found if address == "auto" else address


def address_of(interface: str) -> str:
    """The first global IPv4 address of an interface."""
    links = {str(link["ifname"]): link for link in ip("address", "show")}
    if interface not in links:
        # A wire of ours is none of the LAN's.
        others = ", ".join(name for name in links if name != "lo" and not name.startswith(WIRES))
        raise FactsError(
            f"there is no interface {interface} here; there are {others}: write one of them, or "
            "auto, as lan_interface into inventory/local/machines.yml"
        )
    for entry in links[interface].get("addr_info", []):
        if (entry["family"], entry["scope"]) == ("inet", "global"):
            return str(entry["local"])
    raise FactsError(f"interface {interface} has no IPv4 address; give it one, or name another")


def addresses(interface: str | None = None) -> list[str]:
    """Every address of the machine, or of one interface, IPv4 and IPv6."""
    return [
        str(entry["local"])
        for link in ip("address", "show")
        if interface in (None, link["ifname"])
        for entry in link.get("addr_info", [])
    ]


def ip(*words: str) -> list[dict[str, Any]]:
    """What `ip` knows, as it says it in JSON."""
    result = subprocess.run(  # noqa: S603  fixed words, no shell
        ["/usr/sbin/ip", "-j", *words], capture_output=True, text=True, timeout=10, check=True
    )
    return [item for item in json.loads(result.stdout or "[]") if item]


def render_nodes(root: Path) -> Iterable[RenderNode]:
    """Every render node that Mesa's Vulkan can compute on, in order."""
    for link in sorted((root / "sys/class/drm").glob("renderD*")):
        driver = (link / "device/driver").resolve().name
        node = root / "dev/dri" / link.name
        if node.exists() and driver not in SOFTWARE_DRIVERS | NOT_MESA_DRIVERS:
            yield RenderNode(f"/dev/dri/{link.name}", driver, node.stat().st_gid)


@dataclass(frozen=True, slots=True)
class Listener:
    """One open port of the machine and the unit (or program) that holds it."""

    protocol: str
    address: str
    port: int
    holder: str


def listeners() -> list[Listener]:
    """Everything that listens on this machine, as `ss` sees it."""
    found = []
    for protocol, letter in (("tcp", "t"), ("udp", "u")):
        result = subprocess.run(  # noqa: S603  fixed words, no shell
            ["/usr/bin/ss", f"-Hln{letter}p"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        for line in result.stdout.splitlines():
            words = line.split()
            address, _, port = words[3].rpartition(":")
            address = address.partition("%")[0].strip("[]")
            pid = re.search(r"pid=(\d+)", line)
            found.append(Listener(protocol, address, int(port), _unit_of(pid[1]) if pid else ""))
    return found


def _unit_of(pid: str) -> str:
    """The systemd unit that a process belongs to, or the program's name."""
    try:
        units = re.findall(r"([^/\n]+\.service)", Path(f"/proc/{pid}/cgroup").read_text())
        return units[-1] if units else Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""

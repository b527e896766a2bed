"""Read from the machine only what Hearth decides by: wire, memory, disk, graphics, listeners."""

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

# Kernel drivers that draw in software: a node of theirs is no accelerator.
SOFTWARE_DRIVERS = frozenset({"vgem", "vkms", "virtio_gpu", "simpledrm", "bochs-drm", "ast"})
# NVIDIA's own driver brings its own Vulkan, which is not in an instance; CUDA is its way in.
NOT_MESA_DRIVERS = frozenset({"nvidia"})
LOOPBACK = re.compile(r"127\.|::1$")


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

    @classmethod
    def from_vars(cls, plain: Mapping[str, Any]) -> "Facts":
        """Read back what `as_vars` gave to Ansible."""
        nodes = tuple(RenderNode(**node) for node in plain["render_nodes"])
        dns = tuple(plain["upstream_dns"])
        return cls(**{**plain, "render_nodes": nodes, "upstream_dns": dns})

    def as_vars(self) -> dict[str, Any]:
        """Plain values for Ansible and JSON."""
        return asdict(self)


def read_facts(root: Path = Path("/")) -> Facts:
    """Read the facts of this machine; `root` is another one's file system in tests."""
    interface, address = lan()
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
        upstream_dns=tuple(nameservers(root)),
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


def with_record(facts: Facts, record: Mapping[str, Any]) -> Facts:
    """Let what the machine's record names win over what was read; `auto` leaves it to us."""
    interface, address, dns = (
        None if record[key] == "auto" else record[key]
        for key in ("lan_interface", "lan_address", "upstream_dns")
    )
    if interface:
        facts = replace(facts, lan_interface=interface, lan_address=address_of(interface))
    if address:
        facts = replace(facts, lan_address=address)
    return replace(facts, upstream_dns=tuple(dns)) if dns else facts


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


def lan() -> tuple[str, str]:
    """Interface and IPv4 address that carry the default route.

    Raises:
        FactsError: There is no default route, so nobody could reach the house.
    """
    routes = ip("-4", "route", "show", "default")
    if not routes:
        raise FactsError(
            "this machine has no default IPv4 route; connect it, or name lan_interface and "
            "lan_address in inventory/machines.yml"
        )
    interface = str(routes[0]["dev"])
    return interface, address_of(interface)


def address_of(interface: str) -> str:
    """The first global IPv4 address of an interface."""
    for link in ip("-4", "address", "show", "dev", interface, "scope", "global"):
        for entry in link.get("addr_info", []):
            return str(entry["local"])
    raise FactsError(f"interface {interface} has no IPv4 address; give it one, or name another")


def ip(*words: str) -> list[dict[str, Any]]:
    """What `ip` knows, as it says it in JSON."""
    result = subprocess.run(  # noqa: S603  fixed words, no shell
        ["/usr/sbin/ip", "-j", *words], capture_output=True, text=True, timeout=10, check=True
    )
    return [item for item in json.loads(result.stdout or "[]") if item]


def nameservers(root: Path) -> Iterable[str]:
    """The resolvers that the machine itself uses, without loopback ones."""
    # systemd-resolved puts its own stub into resolv.conf and the real ones beside.
    for name in ("run/systemd/resolve/resolv.conf", "etc/resolv.conf"):
        try:
            lines = (root / name).read_text().splitlines()
        except OSError:
            continue
        found = [
            words[1]
            for words in map(str.split, lines)
            if len(words) > 1 and words[0] == "nameserver" and not LOOPBACK.match(words[1])
        ]
        if found:
            return found
    return []


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

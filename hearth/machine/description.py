"""Describe the machine on which figures were measured, and the versions on it."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hearth.machine.facts import cpu_name, graphics_devices, memory_bytes, text_of
from hearth.paths import PROGRAMS

# Debian's packages that the house depends on, with the names that people know.
_PACKAGES = {"incus-base": "incus", "caddy": "caddy", "dnsmasq-base": "dnsmasq"}
_VENDORS = {"0x1002": "AMD", "0x10de": "NVIDIA", "0x8086": "Intel", "0x1af4": "virtio"}


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
    packages = {name: _package(package) for package, name in _PACKAGES.items()}
    found = {name: version for name, version in packages.items() if version}
    for link in sorted(PROGRAMS.glob("*/current")):
        found[f"{link.parent.name} (files)"] = link.resolve().name[:16]
    return found


def _package(name: str) -> str:
    argv = ["/usr/bin/dpkg-query", "--show", "--showformat=${Version}", name]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv, capture_output=True, text=True, check=False, timeout=10
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

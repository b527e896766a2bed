"""What the house's own instances hold, which a plan for this house must not count as others'."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hearth.machine.facts import text_of
from hearth.machine.outside import instance_of

# The control groups of instances: those of Incus, and those of Podman's containers in their units.
_GROUPS = ("lxc.payload.*", "system.slice/hearth-*.service/libpod-payload-*")
_KIB = 1024


def instances_bytes(root: Path = Path("/")) -> int:
    """Return the memory of all instances' processes, without caches of files."""
    groups = root / "sys/fs/cgroup"
    found = sum(_held(folder) for pattern in _GROUPS for folder in groups.glob(pattern))
    # A machine whose memory is not accounted for by groups.
    return found or sum(_anonymous(pid, root) for pid in _own_processes(root))


def _held(folder: Path) -> int:
    lines = (line.partition(" ") for line in text_of(folder / "memory.stat").splitlines())
    return sum(
        int(value) for name, _, value in lines if name in ("anon", "shmem") and value.isdecimal()
    )


def _anonymous(pid: int, root: Path) -> int:
    sizes = re.findall(r"Rss(?:Anon|Shmem):\s*(\d+) kB", text_of(root / f"proc/{pid}/status"))
    return sum(map(int, sizes)) * _KIB


def is_own(pid: int, root: Path = Path("/")) -> bool:
    """Return whether a process runs in an instance."""
    return instance_of(text_of(root / f"proc/{pid}/cgroup")) is not None


def card_bytes(address: str, root: Path = Path("/")) -> int:
    """Return what instances hold of a card at this PCI address, as its driver accounts for it."""
    return sum(_of_process(pid, address, root) for pid in _own_processes(root))


def _own_processes(root: Path) -> Iterator[int]:
    for folder in (root / "proc").glob("[0-9]*"):
        if is_own(int(folder.name), root):
            yield int(folder.name)


def _of_process(pid: int, address: str, root: Path) -> int:
    clients: dict[str, int] = {}
    for path in (root / f"proc/{pid}/fdinfo").glob("*"):
        text = text_of(path)
        if f"drm-pdev:\t{address}" not in text:
            continue
        client = re.search(r"drm-client-id:\s*(\d+)", text)
        sizes = re.findall(r"drm-memory-(?:vram|gtt):\s*(\d+) KiB", text)
        # Descriptors of one client repeat its figures.
        clients[client[1] if client else path.name] = sum(map(int, sizes)) * _KIB
    return sum(clients.values())

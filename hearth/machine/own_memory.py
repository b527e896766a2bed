"""What the house's own instances hold, which a plan for this house must not count as others'."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hearth.machine.facts import text_of

# The control group of each Incus instance.
_INSTANCES = "lxc.payload"
_KIB = 1024


def instances_bytes(root: Path = Path("/")) -> int:
    """Return the memory of all instances' processes, without caches of files."""
    found = 0
    for folder in (root / "sys/fs/cgroup").glob(f"{_INSTANCES}*"):
        for line in text_of(folder / "memory.stat").splitlines():
            name, _, value = line.partition(" ")
            if name in ("anon", "shmem") and value.isdecimal():
                found += int(value)
    return found


def is_own(pid: int, root: Path = Path("/")) -> bool:
    """Return whether a process runs in an instance."""
    return f"/{_INSTANCES}" in text_of(root / f"proc/{pid}/cgroup")


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

"""The processor of this machine, and the part of it that this process may use."""

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor, and the cores and threads within the limits of this process."""

    processor: str
    cores: int
    """Physical cores, within the limits of this process."""
    threads: int
    """Logical processors, within the same limits."""

    def candidates(self) -> tuple[int, ...]:
        """Return the thread counts worth measuring: around the physical cores."""
        return tuple(sorted({max(1, self.cores // 2), self.cores, self.threads}))


def this_machine(root: Path = Path("/")) -> Machine:
    """Read the affinity, the control group's quota and the topology; `root` is for tests."""
    allowed = sorted(os.sched_getaffinity(0))
    threads = max(1, math.ceil(min(len(allowed), _quota(root))))
    cores = max(1, min(_physical(root, allowed), threads))
    return Machine(_processor(root), cores, threads)


def _processor(root: Path) -> str:
    """Return the processor's model name, empty where the system has none."""
    text = _read(root / "proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def _physical(root: Path, allowed: list[int]) -> int:
    """Count the cores of these processors; threads of one core share its arithmetic units."""
    folder = root / "sys/devices/system/cpu"
    siblings = {
        _read(folder / f"cpu{number}/topology/thread_siblings_list") or str(number)
        for number in allowed
    }
    return len(siblings)


def _quota(root: Path) -> float:
    """Return how many processors the control groups of this process allow, inf for no limit."""
    own = re.search(r"^0::/(.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE)
    base = root / "sys/fs/cgroup"
    folder = base / own[1] if own else base
    least = math.inf
    for place in (folder, *folder.parents):
        quota, _, period = _read(place / "cpu.max").partition(" ")
        if quota.isdigit() and period.strip().isdigit():
            least = min(least, int(quota) / int(period))
        if place == base:
            break
    return least


def _read(path: Path) -> str:
    """Return a file's text, empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""

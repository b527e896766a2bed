"""Says whether a model fits on the disk and into the memory of this instance."""

from __future__ import annotations

import os
from pathlib import Path

from hearth_model_puller.wanted import Model

MEMINFO = Path("/proc/meminfo")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def free_bytes(folder: Path) -> int:
    """Return the bytes that an ordinary process may still write where the models lie."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def memory_bytes(meminfo: Path = MEMINFO, cgroup_limit: Path = CGROUP_LIMIT) -> int:
    """Return the memory this instance may use: the total, not what is free at this moment.

    What is free changes with every model that is loaded, and an answer that depends on the moment
    would call a model too big today and not tomorrow.
    """
    lines = meminfo.read_text(encoding="ascii").splitlines()
    total = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
    try:
        limit = cgroup_limit.read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def lacks_memory(model: Model, total_bytes: int) -> str | None:
    """Return why a model is too big for the memory, or None when it fits."""
    if model.memory_bytes <= total_bytes:
        return None
    return (
        f"needs {gigabytes(model.memory_bytes)} of memory and there are "
        f"{gigabytes(total_bytes)}: take a smaller model or raise the instance's memory limit"
    )


def lacks_disk(model: Model, have_bytes: int, free: int, margin_bytes: int) -> str | None:
    """Return why a download would fill the disk, or None; `have_bytes` are there already."""
    needed = max(0, model.download_bytes - have_bytes) + margin_bytes
    if needed <= free:
        return None
    return (
        f"the disk has {gigabytes(free)} free and {gigabytes(needed)} are needed "
        f"({gigabytes(margin_bytes)} of them as a margin): make room or take a smaller model"
    )


def gigabytes(count: int) -> str:
    """Return bytes as a person reads them."""
    if count < 10**8:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e9:.1f} GB"

"""The instance's disk, memory and clocks, and whether a model fits on the disk and in memory."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hearth_model_puller.model_list import Model

MEMINFO = Path("/proc/meminfo")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MARGIN_BYTES = 10**9


def free_bytes(folder: Path) -> int:
    """Return the bytes that an unprivileged process can still write to the disk of `folder`."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def memory_bytes(meminfo: Path = MEMINFO, cgroup_limit: Path = CGROUP_LIMIT) -> int:
    """Return the total memory that this instance may use, whether it is free now or not.

    Free memory changes with every model that is loaded, so a model that is too big today could
    fit tomorrow.
    """
    lines = meminfo.read_text(encoding="ascii").splitlines()
    total = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
    try:
        limit = cgroup_limit.read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


@dataclass(frozen=True, slots=True)
class Environment:
    """Disk, memory, clocks and retry jitter, so that tests can replace them."""

    free_bytes: Callable[[], int]
    memory_bytes: Callable[[], int] = memory_bytes
    margin_bytes: int = MARGIN_BYTES
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.SystemRandom().random


def memory_problem(model: Model, total_bytes: int) -> str | None:
    """Return why a model does not fit in memory, or None if it does."""
    if model.memory_bytes <= total_bytes:
        return None
    return (
        f"needs {format_bytes(model.memory_bytes)} of memory and there are "
        f"{format_bytes(total_bytes)}: choose a smaller model or raise the instance's memory limit"
    )


def disk_problem(model: Model, partial_bytes: int, free: int, margin_bytes: int) -> str | None:
    """Return why a download would fill the disk, or None; `partial_bytes` are on it already."""
    needed = max(0, model.download_bytes - partial_bytes) + margin_bytes
    if needed <= free:
        return None
    return (
        f"the disk has {format_bytes(free)} free and {format_bytes(needed)} are needed "
        f"({format_bytes(margin_bytes)} of them as a margin): free some space or choose a "
        "smaller model"
    )


def format_bytes(count: int) -> str:
    """Return a size in MB or GB."""
    if count < 10**8:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e9:.1f} GB"

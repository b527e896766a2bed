"""Measure what the planner needs of this machine, in a few seconds and without changing it."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hearth.machine.bandwidth import copy_rates
from hearth.machine.cards import read_cards
from hearth.machine.facts import cpu_name, memory_bytes, text_of
from hearth.machine.own_memory import instances_bytes
from hearth.paths import DOWNLOADS, PROGRAMS
from hearth.plan.machine import MeasuredMachine, MemoryNode, Rate

# What makes a processor's matrix products faster, by the kernel's names.
_FEATURES = (
    *("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)
# A copy takes up to 0.9 s; the whole plan has 5 s.
_MOST_NODES = 2
_MATRIX, _MATRIX_S = 1024, 0.3
_DISK_BYTES, _DISK_BLOCK, _DISK_S, _LEAST_FILE = 256 * 2**20, 2**22, 0.4, 32 * 2**20
_MOST_FILES = 2000


def measure(root: Path = Path("/")) -> MeasuredMachine:
    """Measure this machine; `root` is another file system in tests, of which nothing is timed."""
    here = root == Path("/")
    memory = memory_bytes(root)
    notes: list[str] = []
    nodes = tuple(_nodes(root, here, notes))
    flags = _flags(root)
    name = cpu_name(root)
    if not any(node.bandwidth for node in nodes):
        notes.append("the memory's bandwidth is assumed: too little memory is free to measure it")
    return MeasuredMachine(
        name=f"{name}, {memory / 2**30:.0f} GiB",
        processor=name,
        architecture=platform.machine(),
        cores=len(os.sched_getaffinity(0)) if here else _cores(root),
        features=tuple(feature for feature in _FEATURES if feature in flags),
        memory_bytes=memory,
        held_bytes=max(0, memory - memory_bytes(root, "MemAvailable") - instances_bytes(root)),
        nodes=nodes,
        matrix=_matrix_rate() if here else None,
        disk=_disk_rate(_large_file()) if here else None,
        cards=tuple(read_cards(root)),
        is_virtual="hypervisor" in flags,
        notes=tuple(notes),
        measured=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )


def _flags(root: Path) -> frozenset[str]:
    for line in text_of(root / "proc/cpuinfo").splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _cores(root: Path) -> int:
    lines = text_of(root / "proc/cpuinfo").splitlines()
    return max(1, sum(line.startswith("processor") for line in lines))


def _nodes(root: Path, timed: bool, notes: list[str]) -> Iterator[MemoryNode]:
    """Yield each memory node; the first ones are timed by their own processors."""
    folders = sorted(
        (root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda node: int(node.name[4:])
    )
    with_memory = [folder for folder in folders if _node_bytes(folder)]
    if len(with_memory) <= 1:
        yield MemoryNode(
            number=0,
            processors=_cores(root),
            memory_bytes=memory_bytes(root),
            bandwidth=_bandwidth(None, root) if timed else None,
        )
        return
    rate = None
    for place, folder in enumerate(with_memory):
        processors = _processors(text_of(folder / "cpulist"))
        if timed and processors and place < _MOST_NODES:
            rate = _bandwidth(processors, root)
        yield MemoryNode(
            number=int(folder.name[4:]),
            processors=len(processors),
            memory_bytes=_node_bytes(folder),
            bandwidth=rate,
        )
    if len(with_memory) > _MOST_NODES:
        notes.append(f"{_MOST_NODES} of {len(with_memory)} memory nodes were measured")


def _node_bytes(folder: Path) -> int:
    for line in text_of(folder / "meminfo").splitlines():
        words = line.split()
        if len(words) > 3 and words[2] == "MemTotal:" and words[3].isdecimal():
            return int(words[3]) * 1024
    return 0


def _processors(text: str) -> list[int]:
    """Return the numbers of a list such as `0-3,8`."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _bandwidth(processors: Sequence[int] | None, root: Path) -> Rate | None:
    """Return how fast these processors, or all, copy the memory that they touched first."""
    before = os.sched_getaffinity(0)
    usable = before & set(processors) if processors is not None else before
    if not usable:
        return None
    try:
        os.sched_setaffinity(0, usable)
        rates, size = copy_rates(root)
    finally:
        os.sched_setaffinity(0, before)
    source = f"copies of {size / 2**20:.0f} MiB by {len(usable)} processors"
    return _rate(rates, source)


def _rate(values: Sequence[float], source: str) -> Rate | None:
    if not values:
        return None
    return Rate(median=statistics.median(values), low=min(values), high=max(values), source=source)


def _matrix_rate() -> Rate | None:
    """Return the float32 operations per second of matrix products on all processors."""
    # Slow to import, and only this needs it.
    import numpy as np

    left = np.ones((_MATRIX, _MATRIX), np.float32)
    rates: list[float] = []
    began = time.perf_counter()
    np.matmul(left, left)
    while len(rates) < 2 or time.perf_counter() - began < _MATRIX_S:
        start = time.perf_counter()
        np.matmul(left, left)
        rates.append(2 * _MATRIX**3 / (time.perf_counter() - start))
    return _rate(rates, f"float32 products of {_MATRIX} by {_MATRIX}")


def _large_file() -> Path | None:
    """Return the largest file of the house, or else of the system's libraries."""
    for folder in (PROGRAMS, DOWNLOADS, Path("/usr/lib")):
        sizes: list[tuple[int, Path]] = []
        for number, path in enumerate(folder.rglob("*") if folder.is_dir() else ()):
            if number > _MOST_FILES:
                break
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    sizes.append((path.stat().st_size, path))
        if sizes and max(sizes)[0] >= _LEAST_FILE:
            return max(sizes)[1]
    return None


def _disk_rate(path: Path | None) -> Rate | None:
    """Return how fast a file is read past the kernel's cache."""
    if path is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    import mmap

    rates: list[float] = []
    began = time.perf_counter()
    try:
        with mmap.mmap(-1, _DISK_BLOCK) as block:
            read = 0
            while read < _DISK_BYTES and time.perf_counter() - began < _DISK_S:
                start = time.perf_counter()
                if (got := os.readv(handle, [block])) < _DISK_BLOCK:
                    break
                rates.append(got / (time.perf_counter() - start))
                read += got
    except OSError:
        return None
    finally:
        os.close(handle)
    return _rate(rates, "reading a large file past the cache")

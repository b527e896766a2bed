"""How much memory a model needs, how much is there, and how it is given back."""

import ctypes
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Weights of 16 bits on disk become 8 bits in memory, but are read before they are converted; the
# window's encoding and its beams take the rest. Measured from tiny to small.
_LOADING = 1.3
_WORKING_BYTES = 200 << 20
_KEPT = 0.6
# glibc's parameters of mallopt: what is larger than the first is mapped by itself, and what is
# free at the top of a heap is given back above the second.
_MAP_THRESHOLD, _TRIM_THRESHOLD, _MOST_HEAPS = -3, -1, -8


def needed_bytes(folder: Path, copies: int) -> int:
    """Return what a model takes at most on a processor, with `copies` of it in memory."""
    size = (folder / "model.bin").stat().st_size
    return round(size * (_LOADING + _KEPT * (copies - 1))) + _WORKING_BYTES


def free_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process may still take: the machine's, or its group's limit."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    least = int(found[1]) << 10 if found else 1 << 62
    own = re.search(r"^0::/(.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE)
    base = root / "sys/fs/cgroup"
    folder = base / own[1] if own else base
    for place in (folder, *folder.parents):
        limit, used = _read(place / "memory.max"), _read(place / "memory.current")
        if limit.isdigit() and used.isdigit():
            taken = int(used) - _cached(_read(place / "memory.stat"))
            least = min(least, max(0, int(limit) - taken))
        if place == base:
            break
    return least


def _cached(stat: str) -> int:
    """Return what of a group's memory files hold that the system drops when it needs room.

    It counts as used: the weights that were just fetched, and hashed, would leave none for them.
    """
    rows = dict(line.split(" ", 1) for line in stat.splitlines() if " " in line)

    def size(name: str) -> int:
        return int(rows[name]) if rows.get(name, "").isdigit() else 0

    # What is mapped is in use, as a program's own code is.
    return max(0, size("inactive_file") + size("active_file") - size("file_mapped"))


def few_heaps() -> None:
    """Let all threads share two heaps, before they begin; each else keeps what it had at most."""
    _mallopt(_MOST_HEAPS, 2)


@contextmanager
def weights_apart() -> Iterator[None]:
    """Let what is loaded lie in mappings of its own, so that freeing it gives all of it back.

    Among the small things of a heap it leaves holes: with tiny 229 MB instead of 106 stayed after
    unloading. What a recognition needs for a moment comes from the heap, which is faster.
    """
    _mallopt(_MAP_THRESHOLD, 1 << 20)
    try:
        yield
    finally:
        _mallopt(_MAP_THRESHOLD, 32 << 20)
        _mallopt(_TRIM_THRESHOLD, 64 << 20)


def give_back() -> None:
    """Return freed memory to the system; the allocator keeps it otherwise."""
    gc.collect()
    with suppress(OSError, AttributeError):  # a system whose libc has no such call
        ctypes.CDLL(None).malloc_trim(0)


def _mallopt(parameter: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)


def _read(path: Path) -> str:
    """Return a file's text, empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""

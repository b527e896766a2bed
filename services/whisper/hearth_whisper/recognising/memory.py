"""How much memory a model needs, and how much is there."""

import re
from pathlib import Path

# Weights of 16 bits on disk become 8 bits in memory, but are read before they are converted; the
# window's encoding and its beams take the rest. Measured from tiny to small.
_LOADING = 1.3
_WORKING_BYTES = 200 << 20
_KEPT = 0.6


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
            least = min(least, max(0, int(limit) - int(used)))
        if place == base:
            break
    return least


def _read(path: Path) -> str:
    """Return a file's text, empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""

"""The process's share of the machine: memory, and native threads with idle priority."""

import ctypes
import gc
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
DRAFT_THREADS = "hearth-draft"
"""The system's name of the idle threads; it shows up to 15 characters."""
_TASKS = Path("/proc/self/task")

# Weights of 16 bits on disk become 8 bits in memory, but are read before they are converted; the
# window's encoding and its beams take the rest. Measured from tiny to small.
_LOADING = 1.3
_WORKING_BYTES = 200 << 20
_EXTRA_COPY = 0.6
# glibc's parameters of mallopt: an allocation above the first gets its own mapping, and free
# memory at the top of a heap is returned above the second.
_MAP_THRESHOLD, _TRIM_THRESHOLD, _MAX_ARENAS = -3, -1, -8


def needed_bytes(folder: Path, copies: int) -> int:
    """Return the most that a model takes on a CPU, with `copies` of it in memory."""
    size = (folder / "model.bin").stat().st_size
    return round(size * (_LOADING + _EXTRA_COPY * (copies - 1))) + _WORKING_BYTES


def free_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process may still take: the machine's, or its cgroup's."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    least = int(found[1]) << 10 if found else 1 << 62
    own = re.search(r"^0::/(.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE)
    base = root / "sys/fs/cgroup"
    folder = base / own[1] if own else base
    for group in (folder, *folder.parents):
        limit, used = _read(group / "memory.max"), _read(group / "memory.current")
        if limit.isdigit() and used.isdigit():
            taken = int(used) - _reclaimable_bytes(_read(group / "memory.stat"))
            least = min(least, max(0, int(limit) - taken))
        if group == base:
            break
    return least


def _reclaimable_bytes(stat: str) -> int:
    """Return the page cache in a cgroup's usage.

    Weights that were just downloaded and hashed are in it; counted as used, they would not fit.
    """
    rows = dict(line.split(" ", 1) for line in stat.splitlines() if " " in line)

    def size(name: str) -> int:
        return int(rows[name]) if rows.get(name, "").isdigit() else 0

    # Mapped files are in use, like a program's own code.
    return max(0, size("inactive_file") + size("active_file") - size("file_mapped"))


def limit_malloc_arenas() -> None:
    """Let all threads share two arenas, before they start; each arena keeps its peak."""
    _mallopt(_MAX_ARENAS, 2)


@contextmanager
def separate_mappings() -> Iterator[None]:
    """Allocate weights in mappings of their own, so that freeing them returns all of it.

    In the heap they leave holes: with tiny, 229 MB instead of 106 stayed after unloading. Buffers
    of a recognition come from the heap, which is faster.
    """
    _mallopt(_MAP_THRESHOLD, 1 << 20)
    try:
        yield
    finally:
        _mallopt(_MAP_THRESHOLD, 32 << 20)
        _mallopt(_TRIM_THRESHOLD, 64 << 20)


def release_memory() -> None:
    """Return freed memory to the system; the allocator keeps it otherwise."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has this call
        ctypes.CDLL(None).malloc_trim(0)


def run_in_idle_threads(function: Callable[[], T], name: str = DRAFT_THREADS) -> T:
    """Return `function()`; the native threads that it starts get the idle scheduling policy.

    A thread inherits its name, by which the new threads are found. Python's own threads keep their
    policy: one that waits for a CPU while it holds the interpreter's lock would block all others.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        own = threading.get_native_id()
        _rename(own, name)
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        _set_idle(own, name)
        _rename(own, "done")  # the system may list it for a moment after its end

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def threads_named(name: str = DRAFT_THREADS) -> list[int]:
    """Return the native threads of this process with a name."""
    found = []
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def _rename(thread: int, name: str) -> None:
    try:
        (_TASKS / str(thread) / "comm").write_text(name)
    except OSError as error:
        log.warning("threads of partial results cannot be named: %s", error.strerror)


def _set_idle(own: int, name: str) -> None:
    for thread in threads_named(name):
        if thread == own:
            continue
        try:
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        except ProcessLookupError:
            continue
        except OSError as error:
            log.warning(
                "partial results compete with final results for the CPU: %s", error.strerror
            )
            return


def _mallopt(parameter: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)


def _read(path: Path) -> str:
    """Return a file's text, empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""

"""The memory that is free, and native threads with idle priority."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hearth_whisper.recognition.resources import (
    free_bytes,
    needed_bytes,
    run_in_idle_threads,
    threads_named,
)

MIB = 1 << 20

# The smallest native thread: it only sleeps.
_PROGRAM = """
import ctypes, os, threading
from hearth_whisper.recognition.resources import run_in_idle_threads, threads_named

libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()


def start():
    libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.sleep, ctypes.c_void_p), 30)


run_in_idle_threads(start)
found = threads_named()
assert len(found) == 1, found
assert os.sched_getscheduler(found[0]) == os.SCHED_IDLE
assert all(os.sched_getscheduler(t.native_id) == os.SCHED_OTHER for t in threading.enumerate())
os._exit(0)
"""


def write(root: Path, place: str, text: str) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 1000 * MIB),
        ({"a": ("max", 0), "a/b": ("max", 0)}, 1000 * MIB),
        ({"a": (600 * MIB, 100 * MIB), "a/b": ("max", 0)}, 500 * MIB),
        ({"a": (600 * MIB, 0), "a/b": (400 * MIB, 500 * MIB)}, 0),
    ],
    ids=["no group", "no limit", "above", "too full"],
)
def test_the_smallest_limit_applies(
    tmp_path: Path, limits: dict[str, tuple[int | str, int]], expected: int
) -> None:
    write(tmp_path, "proc/meminfo", f"MemTotal: 9999999 kB\nMemAvailable:  {1000 << 10} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    for group, (most, used) in limits.items():
        write(tmp_path, f"sys/fs/cgroup/{group}/memory.max", f"{most}\n")
        write(tmp_path, f"sys/fs/cgroup/{group}/memory.current", f"{used}\n")
    assert free_bytes(tmp_path) == expected


def test_the_page_cache_counts_as_free(tmp_path: Path) -> None:
    write(tmp_path, "proc/meminfo", f"MemAvailable:  {9000 << 10} kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/a\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{600 * MIB}\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.current", f"{550 * MIB}\n")
    sizes = {"anon": 100, "inactive_file": 300, "active_file": 150, "file_mapped": 50}
    stat = "".join(f"{name} {size * MIB}\n" for name, size in sizes.items())
    write(tmp_path, "sys/fs/cgroup/a/memory.stat", stat)
    assert free_bytes(tmp_path) == 450 * MIB


def test_a_second_copy_needs_more(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"0" * MIB)
    assert needed_bytes(tmp_path, 2) > needed_bytes(tmp_path, 1) > MIB


def test_native_threads_are_idle_and_python_threads_are_not() -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, timeout=30, env={"PYTHONPATH": paths}
    )


def test_the_result_is_returned_and_the_thread_ends() -> None:
    assert run_in_idle_threads(lambda: threading.current_thread().name) == "hearth-draft"
    assert threads_named() == []


def test_exceptions_are_raised_in_the_caller() -> None:
    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_in_idle_threads(fail)

"""What is started in idle threads computes only where nobody else wants to."""

import os
import subprocess
import sys
import threading

import pytest

from hearth_whisper.recognising.idle import in_idle_threads, threads_of

# A native thread that lives: the runtime's timer would do, but this is the smallest there is.
_PROGRAM = """
import ctypes, os, threading
from hearth_whisper.recognising.idle import in_idle_threads, threads_of

libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()


def start():
    libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.sleep, ctypes.c_void_p), 30)


in_idle_threads(start)
found = threads_of()
assert len(found) == 1, found
assert os.sched_getscheduler(found[0]) == os.SCHED_IDLE
assert all(os.sched_getscheduler(t.native_id) == os.SCHED_OTHER for t in threading.enumerate())
os._exit(0)
"""


def test_native_threads_are_idle_and_pythons_own_are_not() -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, timeout=30, env={"PYTHONPATH": paths}
    )


def test_what_is_made_comes_back_and_its_thread_ends() -> None:
    assert in_idle_threads(lambda: threading.current_thread().name) == "hearth-draft"
    assert threads_of() == []


def test_what_it_raises_comes_through() -> None:
    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_idle_threads(fail)

"""Threads that compute only where nobody else wants to, without ever holding Python's lock."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
NAME = "hearth-draft"
"""What the system calls these threads; it shows up to 15 letters."""
_TASKS = Path("/proc/self/task")


def in_idle_threads(make: Callable[[], T], name: str = NAME) -> T:
    """Return what `make` makes; the native threads that it starts get the idle policy.

    A policy is a thread's own and is inherited, as its name is: what `make` starts bears the name
    of the thread that runs it, and is found by that. Never a Python thread: one that waits for a
    processor while it holds the interpreter's lock would hold up everybody.
    """
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        own = threading.get_native_id()
        _call(own, name)
        try:
            made.append(make())
        except BaseException as error:
            failed.append(error)
        _idle(own, name)
        _call(own, "done")  # the system may keep it for a moment after it has ended

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def threads_of(name: str = NAME) -> list[int]:
    """Return the native threads of this process that bear a name."""
    found = []
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def _call(thread: int, name: str) -> None:
    try:
        (_TASKS / str(thread) / "comm").write_text(name)
    except OSError as error:
        log.warning("threads of partial results cannot be named: %s", error.strerror)


def _idle(own: int, name: str) -> None:
    for thread in threads_of(name):
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

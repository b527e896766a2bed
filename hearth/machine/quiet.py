"""Divide the machine among a run's steps: what measures has it alone, what can wait gives way."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hearth.progress import WAITING, doing

LOCK = Path("/run/hearth-quiet.lock")
_LOWEST = 19


@contextlib.contextmanager
def turn(*, alone: bool, lock: Path | None = None) -> Iterator[None]:
    """Work beside other steps, or `alone`: when they have ended, and before others start.

    Each of them is bounded, so this waits without a limit of its own.
    """
    handle = os.open(lock or LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    wanted = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        try:
            fcntl.flock(handle, wanted | fcntl.LOCK_NB)
        except BlockingIOError:
            with doing(WAITING, "the other services" if alone else "a program's measurement"):
                fcntl.flock(handle, wanted)
        yield
    finally:
        os.close(handle)


def give_way(background: bool) -> None:
    """Let this thread, and what it starts, take only the processor time that others leave."""
    if background:
        os.nice(_LOWEST)

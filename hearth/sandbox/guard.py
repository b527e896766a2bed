"""Delete sandboxes in time, and stop those that fill the machine's disk.

`hearth-sandboxes.path` starts this when there is a sandbox; it ends with the last one. What is over
is read from Incus, so a killed guard or a restarted machine loses nothing.
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from hearth.machine.engine import EngineError
from hearth.sandbox.lifecycle import (
    DISK_BYTES,
    DISK_RESERVE_BYTES,
    ROOTS,
    Sandbox,
    list_sandboxes,
    root_of,
    stop_sandbox,
    sweep,
)

_TICK_S, _SWEEP_S = 1.0, 10.0
# All sandboxes are measured when so much was written to the disk, and every half a minute.
_MEASURE_BYTES, _MEASURE_S = 128 << 20, 30.0
# More files than any program needs here, and a disk can run out of them, too.
_MOST_FILES = 300_000
_BLOCK = 512


@dataclass(slots=True)
class Guard:
    """What was seen at the last looks; `free` is in bytes."""

    free: int = 0
    swept: float = -float("inf")
    measured: float = -float("inf")

    def look(self, now: float, free: int) -> bool:
        """Do what is due at this time with so much free space; return whether any sandbox is left.

        Raises:
            EngineError: Incus does not answer.
        """
        if now - self.swept >= _SWEEP_S:
            sweep()
            self.swept = now
        if free >= DISK_RESERVE_BYTES and not self._due(now, free):
            return True
        present = list_sandboxes()
        running = [one for one in present if one.running and one.ready]
        for one in running:
            if free < DISK_RESERVE_BYTES:
                # Also deleted files take space while they are open, and nobody can count those.
                stop_sandbox(one.name, "the machine's disk was nearly full, so it was stopped")
            elif written_bytes(one) > DISK_BYTES:
                limit = f"{DISK_BYTES >> 20} MiB"
                stop_sandbox(one.name, f"it wrote more than {limit}, so it was stopped")
        self.free, self.measured = free, now
        return bool(present)

    def _due(self, now: float, free: int) -> bool:
        return now - self.measured >= _MEASURE_S or self.free - free > _MEASURE_BYTES


def guard_sandboxes(sleep: Callable[[float], None] = time.sleep) -> None:
    """Guard them until none is left."""
    guard = Guard()
    while guard.look(time.monotonic(), _free_bytes()):
        sleep(_TICK_S)


def written_bytes(sandbox: Sandbox) -> int:
    """Return the size of what changed in a sandbox since it was ready; too many files count as all.

    No link is followed; what disappears meanwhile is left out.
    """
    total = count = 0
    since = int(sandbox.ready * 1e9)
    try:
        for _, _, names, folder in os.fwalk(root_of(sandbox.name), follow_symlinks=False):
            for name in names:
                count += 1
                with contextlib.suppress(OSError):
                    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    total += seen.st_blocks * _BLOCK if seen.st_ctime_ns > since else 0
            if count > _MOST_FILES:
                raise RecursionError
    except RecursionError:
        # As many files, or folders in folders, are an attack.
        return 2 * DISK_BYTES
    except OSError as error:
        raise EngineError(f"{root_of(sandbox.name)}: {error.strerror}") from None
    return total


def _free_bytes() -> int:
    try:
        status = os.statvfs(ROOTS)
    except OSError as error:
        raise EngineError(f"{ROOTS}: {error.strerror}: is Incus running?") from None
    return status.f_bavail * status.f_frsize

"""Replace a file whole or not at all, and let only one run at a time do so."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path


class LockHeldError(Exception):
    """Another run holds the lock; `holder` is the text that it wrote into the lock."""

    def __init__(self, text: str, holder: str) -> None:
        super().__init__(text)
        self.holder = holder


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace `path` by `content`: a reader, a kill or a power cut sees the old or the new one.

    The new file lies beside it as `.NAME.new` until it is complete; because of the fixed name,
    the next run overwrites what a killed one left. Callers that may run twice hold a lock.
    """
    # A file that is a link (kept in another folder by its owner) stays a link.
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(target)
    sync_folder(target.parent)


@contextlib.contextmanager
def locked(path: Path, within_s: float = 30.0, who: str = "") -> Iterator[int]:
    """Hold `path` as a lock that ends with this process, and give its descriptor.

    A child that inherits the descriptor holds the lock too, for as long as it lives. The lock
    contains `who`, or else the process id.

    Raises:
        LockHeldError: another process kept it for `within_s`; the text names its process id.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A user who can read a lock can hold it, and another user may own the file.
        with contextlib.suppress(PermissionError):
            os.fchmod(handle, 0o600)
        deadline = time.monotonic() + within_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(handle, 4096, 0).decode(errors="replace").strip()
                    raise LockHeldError(
                        f"{path}: process {holder or 'unknown'}, or what it started, has held this "
                        f"lock for {within_s:g} s: wait for its end, then run this again",
                        holder,
                    ) from None
                time.sleep(0.05)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{who or os.getpid()}\n".encode(), 0)
        yield handle
    finally:
        os.close(handle)

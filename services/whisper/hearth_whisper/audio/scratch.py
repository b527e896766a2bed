"""Room for uploads: memory while they are small, then files without a name; and a bound."""

import contextlib
import errno
import io
import shutil
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from hearth_serving.errors import ServiceError

_AGAIN_S = 10


class Scratch:
    """What all sheets together may hold; safe to use from several threads."""

    def __init__(self, folder: Path | None, most_bytes: int) -> None:
        """Write into `folder`, or where the system keeps such files."""
        self.folder = folder
        self._most = most_bytes
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """What is held now."""
        return self._used

    def sheet(self, in_memory_bytes: int = 1024 * 1024) -> "Sheet":
        """Return an empty sheet that stays in memory while it is as small as this."""
        return Sheet(self, in_memory_bytes)

    def take(self, count: int) -> None:
        """Count bytes that are about to be held; raises ServiceError where there is no room."""
        with self._lock:
            if self._used + count > self._most:
                message = "too many large files are being heard; try again"
                raise ServiceError(message, status=503, code="busy", retry_after_s=_AGAIN_S)
            self._used += count

    def give_back(self, count: int) -> None:
        """Count bytes that are held no longer."""
        with self._lock:
            self._used -= count


class Sheet:
    """Bytes in memory while they are few, then in a file that has no name.

    Nothing of it is left when this process ends, however it ends.
    """

    def __init__(self, scratch: Scratch, in_memory_bytes: int) -> None:
        """Begin empty."""
        self._scratch, self._in_memory = scratch, in_memory_bytes
        self._file: IO[bytes] = io.BytesIO()
        self.size = 0

    def __enter__(self) -> "Sheet":
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @property
    def on_disk(self) -> bool:
        """Whether it has outgrown memory."""
        return not isinstance(self._file, io.BytesIO)

    def write(self, data: bytes) -> None:
        """Add bytes; raises ServiceError when the disk is full or too much is held."""
        self._scratch.take(len(data))
        self.size += len(data)
        try:
            if not self.on_disk and self.size > self._in_memory:
                self._spill()
            self._file.write(data)
        except OSError as error:
            raise _no_room(error) from error

    def begin(self) -> IO[bytes]:
        """Return it as a file, at its first byte."""
        try:
            self._file.seek(0)
        except OSError as error:  # what a full disk did not take yet
            raise _no_room(error) from error
        return self._file

    def close(self) -> None:
        """Forget it all; a second time does nothing."""
        # What is still in the buffer need not be written any more, nor can it be on a full disk.
        with contextlib.suppress(OSError):
            self._file.close()
        self._scratch.give_back(self.size)
        self.size = 0

    def _spill(self) -> None:
        small = self.begin()
        self._file = tempfile.TemporaryFile(dir=self._scratch.folder)  # noqa: SIM115 - close() does
        shutil.copyfileobj(small, self._file)


def _no_room(error: OSError) -> ServiceError:
    """Return what a person hears of a disk that takes no more."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    why = "the server's disk is full" if full else "the server cannot write its temporary files"
    return ServiceError(f"{why}: the upload was not kept", status=507, code="no_space")

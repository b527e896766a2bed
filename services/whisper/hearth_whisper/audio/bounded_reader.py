"""An upload as the demuxers read it: it ends as soon as one of them reads too much."""

import time
from collections.abc import Callable
from typing import IO

_MIB = 1024 * 1024

MAX_READ_BYTES = 16 * _MIB
"""No packet is as large, nor a song's cover picture; a demuxer would hold it in memory."""
MAX_OPENING_BYTES = 32 * _MIB
"""The index of hours of film takes some megabytes; a demuxer that reads more finds no audio."""
MAX_OPENING_S = 20


class BoundedReader:
    """Bytes for a demuxer in one thread; any thread may end it.

    At a limit the demuxer reads the end of the file, which each of them handles; an exception in
    the middle of a read would not be one of its own.
    """

    def __init__(self, file: IO[bytes], clock: Callable[[], float] = time.monotonic) -> None:
        """Read `file` from its position; until `opened` is called, within the limits."""
        self._file, self._clock = file, clock
        self._opening, self._left_bytes = True, MAX_OPENING_BYTES
        self._deadline: float | None = None
        self._ended = False
        self.limit_exceeded = False
        """Whether a limit ended the reading, and not the end of the file."""

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended

    def opened(self) -> None:
        """Lift the limits of opening: the decoder counts the audio from here."""
        self._opening = False

    def end(self) -> None:
        """Return no more bytes, whatever the demuxer does; ending twice is harmless."""
        self._ended = True

    def read(self, size: int) -> bytes:
        """Return the next bytes, and none at the end or at a limit."""
        if self._ended or self._exceeds_limit(size):
            return b""
        data = self._file.read(size)
        self._left_bytes -= len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to another position."""
        return 0 if self._ended else self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return 0 if self._ended else self._file.tell()

    def _exceeds_limit(self, size: int) -> bool:
        now = self._clock()
        if self._deadline is None:
            self._deadline = now + MAX_OPENING_S
        exceeded = self._opening and (self._left_bytes < 0 or now > self._deadline)
        self.limit_exceeded = self.limit_exceeded or exceeded or size > MAX_READ_BYTES
        return self.limit_exceeded

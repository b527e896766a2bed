"""An upload as the readers of containers see it: it ends as soon as one of them wants too much."""

import time
from collections.abc import Callable
from typing import IO

_MIB = 1024 * 1024

MOST_AT_ONCE_BYTES = 16 * _MIB
"""No packet is as large, nor the picture of a song's cover; a reader would have it in memory."""
MOST_OPENING_BYTES = 32 * _MIB
"""The index of hours of film takes some megabytes; who reads more before any sound finds none."""
MOST_OPENING_S = 20


class Source:
    """Bytes for a reader in one thread; any thread may end it.

    A reader that must not go on is shown the end of the file: each of them understands that, while
    an error in the middle of its work is none of its own.
    """

    def __init__(self, file: IO[bytes], clock: Callable[[], float] = time.monotonic) -> None:
        """Read `file` from where it stands; until `opened` is called, within the bounds."""
        self._file, self._clock = file, clock
        self._opening, self._left = True, MOST_OPENING_BYTES
        self._until: float | None = None
        self._ended = False
        self.refused = False
        """Whether a reader was shown an end that is none because it wanted too much."""

    @property
    def ended(self) -> bool:
        """Whether nobody wants it any more."""
        return self._ended

    def opened(self) -> None:
        """From now on read all of it: whoever takes the sound counts that."""
        self._opening = False

    def end(self) -> None:
        """Let its reader come to an end, wherever it is; a second time does nothing."""
        self._ended = True

    def read(self, size: int) -> bytes:
        """Return the next bytes, and none at the end or at a bound."""
        if self._ended or self._too_much(size):
            return b""
        data = self._file.read(size)
        self._left -= len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go elsewhere in it."""
        return 0 if self._ended else self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return where it stands."""
        return 0 if self._ended else self._file.tell()

    def _too_much(self, size: int) -> bool:
        now = self._clock()
        if self._until is None:
            self._until = now + MOST_OPENING_S
        slow = self._opening and (self._left < 0 or now > self._until)
        self.refused = self.refused or slow or size > MOST_AT_ONCE_BYTES
        return self.refused

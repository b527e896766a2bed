"""Files beside the receipt: read when they have changed, within limits, and never raising."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from .snapshot import LIMIT_BYTES, bounded

T = TypeVar("T")


class StoredFile(Generic[T]):
    """A JSON file of which the page shows what `parse` makes.

    `failed` makes it of the reason why the file cannot be read; `none` is for no file.
    """

    def __init__(
        self, path: Path, parse: Callable[[Any], T], failed: Callable[[str], T], none: T
    ) -> None:
        self._path, self._parse, self._failed, self._none = path, parse, failed, none
        self._seen: tuple[int, ...] = ()
        self._last = none

    def read(self) -> T:
        """Return the file as it was written last."""
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_mtime_ns, state.st_size)
            if seen != self._seen:
                self._seen = seen
                self._last = self._parse(_content(self._path))
        except FileNotFoundError:
            self._seen, self._last = (), self._none
        except (
            *(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError),
            *(ZeroDivisionError, OverflowError),
        ) as error:
            self._last = self._failed(getattr(error, "strerror", None) or "it is not valid")
        return self._last


def _content(path: Path) -> Any:
    with path.open("rb") as stream:
        text = stream.read(LIMIT_BYTES + 1)
    if len(text) > LIMIT_BYTES:
        raise ValueError("too long")
    return bounded(json.loads(text))

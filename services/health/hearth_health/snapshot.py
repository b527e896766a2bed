"""What the watcher wrote about the house, and whether that is still worth anything."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The watcher writes every 5 s, and at once what is new; after two missed times nobody knows how
# the house is.
STALE_S = 12.0
LIMIT_BYTES = 4 * 2**20
# No text of the house is longer than this on the page, and no list.
TEXT, ITEMS, DEPTH = 400, 200, 8


def boot_s() -> float:
    """Return the seconds since the machine started, which no wrong clock changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last look at the house; a `problem` says why it tells nothing about now."""

    data: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class SnapshotFile:
    """Reads the watcher's file when it has changed, within limits; never raises."""

    def __init__(self, path: Path, clock: Callable[[], float] = boot_s) -> None:
        self._path, self._clock = path, clock
        self._seen: tuple[int, ...] = ()
        self._last = Snapshot(problem="the watcher has not written anything yet")

    def read(self) -> Snapshot:
        """Return the last look; one that is old or broken has a problem."""
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_mtime_ns, state.st_size)
            if seen != self._seen:
                self._last, self._seen = Snapshot(_read(self._path)), seen
        except FileNotFoundError:
            self._seen = ()
            return Snapshot(problem="the watcher does not run: it has written nothing")
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or "it is not valid"
            return Snapshot(problem=f"what the watcher wrote cannot be read: {why}")
        return Snapshot(self._last.data, _age_problem(self._last.data, self._clock()))


def _read(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as stream:
        text = stream.read(LIMIT_BYTES + 1)
    if len(text) > LIMIT_BYTES:
        raise ValueError("too long")
    found = bounded(json.loads(text))
    if not isinstance(found, dict) or not isinstance(found.get("made_boot_s"), int | float):
        raise ValueError("not a snapshot")
    return found


def _age_problem(data: Mapping[str, Any], now: float) -> str:
    age = now - data["made_boot_s"]
    if 0 <= age <= STALE_S:
        return ""
    # Without an age in seconds: the text would change every second.
    return "the watcher does not run, or is stuck"


def bounded(value: Any, depth: int = DEPTH) -> Any:
    """Return plain data with every text, list and depth cut to what a page can show."""
    if isinstance(value, str):
        return value if len(value) <= TEXT else f"{value[: TEXT - 1]}…"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return None
    if isinstance(value, list):
        return [bounded(item, depth - 1) for item in value[:ITEMS]]
    some = list(value.items())[:ITEMS]
    return {bounded(key): bounded(item, depth - 1) for key, item in some}

"""What goes wrong on purpose, and what was asked: the mock upstreams' memory, for tests."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CHUNK_BYTES = 256 * 1024
REMEMBERED = 2000
Kind = Literal["broken", "cut", "slow", "status"]


class CutError(Exception):
    """The connection is cut in the middle of a body, on purpose."""


class Fault(BaseModel):
    """One thing that goes wrong; `host` and `contains` (in the path) say for which requests."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    host: str = ""
    contains: str = ""
    # How many requests it spoils; without a number, all until it is taken back.
    times: int | None = Field(default=None, ge=1)
    # broken: which byte of the file is wrong; cut: how many bytes of this answer arrive.
    after_bytes: int = Field(default=0, ge=0)
    bytes_per_s: int = Field(default=1_000_000, ge=1)
    status: int = Field(default=500, ge=400, le=599)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came."""

    method: str
    host: str
    path: str
    range: str
    status: int


@dataclass(slots=True)
class Pace:
    """A wire of limited speed that several downloads share; 0 is without limit."""

    bytes_per_s: int = 0
    free_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, count: int) -> None:
        """Return when so many bytes more have passed."""
        if self.bytes_per_s <= 0:
            return
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + count / self.bytes_per_s
            until = self.free_at
        time.sleep(max(0.0, until - time.monotonic()))

    def piece(self, wanted: int) -> int:
        """Return how many bytes to pass at once, so that no wait is longer than a tenth second."""
        return wanted if self.bytes_per_s <= 0 else max(1, min(wanted, self.bytes_per_s // 10))


@dataclass(slots=True)
class Memory:
    """The faults in force and the requests that came."""

    pace: Pace = field(default_factory=Pace)
    faults: list[Fault] = field(default_factory=list)
    asked: deque[Asked] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def take(self, host: str, path: str, *kinds: Kind) -> Fault | None:
        """Return the first fault for this request, and count it down."""
        for fault in self.faults:
            if (
                fault.kind in kinds
                and fault.host in ("", host)
                and fault.contains in path
                and fault.times != 0
            ):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


def read(path: Path, start: int, length: int, pace: Pace, fault: Fault | None) -> Iterator[bytes]:
    """Yield `length` bytes of a file from `start` at the wire's pace, spoiled as the fault says."""
    slow = Pace(fault.bytes_per_s if fault and fault.kind == "slow" else 0)
    end = start + length
    if fault and fault.kind == "cut":
        end = min(end, start + fault.after_bytes)
    with path.open("rb") as file:
        file.seek(start)
        place = start
        while place < end:
            chunk = file.read(slow.piece(pace.piece(min(CHUNK_BYTES, end - place))))
            pace.wait(len(chunk))
            slow.wait(len(chunk))
            yield spoiled(chunk, place, fault)
            place += len(chunk)
    if fault and fault.kind == "cut" and length > fault.after_bytes:
        raise CutError


def spoiled(chunk: bytes, place: int, fault: Fault | None) -> bytes:
    """Return the chunk, with one byte turned over when the fault's byte lies in it."""
    if fault is None or fault.kind != "broken":
        return chunk
    wrong = fault.after_bytes - place
    if not 0 <= wrong < len(chunk):
        return chunk
    return chunk[:wrong] + bytes([chunk[wrong] ^ 0xFF]) + chunk[wrong + 1 :]

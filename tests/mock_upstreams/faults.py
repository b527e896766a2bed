"""Injected faults and recorded requests: the mock upstreams' memory, for tests."""

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
    """Cuts the connection in the middle of a body, on purpose."""


class Fault(BaseModel):
    """One injected fault; `host` and `contains` (in the path) select the requests."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    host: str = ""
    contains: str = ""
    # Number of requests that it affects; None: all until the fault is removed.
    times: int | None = Field(default=None, ge=1)
    # broken: offset of the wrong byte in the file; cut: number of bytes sent of this response.
    after_bytes: int = Field(default=0, ge=0)
    bytes_per_s: int = Field(default=1_000_000, ge=1)
    status: int = Field(default=500, ge=400, le=599)


@dataclass(frozen=True, slots=True)
class Asked:
    """One received request."""

    method: str
    host: str
    path: str
    range: str
    status: int


@dataclass(slots=True)
class Pace:
    """A rate limit that several downloads share; 0 is unlimited."""

    bytes_per_s: int = 0
    free_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, count: int) -> None:
        """Return when the limit allows this many more bytes."""
        if self.bytes_per_s <= 0:
            return
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + count / self.bytes_per_s
            until = self.free_at
        time.sleep(max(0.0, until - time.monotonic()))

    def piece(self, wanted: int) -> int:
        """Return how many bytes to send at once, so that no wait exceeds a tenth of a second."""
        return wanted if self.bytes_per_s <= 0 else max(1, min(wanted, self.bytes_per_s // 10))


@dataclass(slots=True)
class Memory:
    """The active faults and the received requests."""

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
    """Yield `length` bytes of a file from `start` at the limited rate, with the fault applied."""
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
    """Return the chunk, with one byte inverted if the fault's offset lies in it."""
    if fault is None or fault.kind != "broken":
        return chunk
    wrong = fault.after_bytes - place
    if not 0 <= wrong < len(chunk):
        return chunk
    return chunk[:wrong] + bytes([chunk[wrong] ^ 0xFF]) + chunk[wrong + 1 :]

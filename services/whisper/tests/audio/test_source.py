"""What opening and reading a stranger's file may cost: bytes, seconds, memory; and when it ends."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.audio import opening, source
from hearth_whisper.audio.decode import open_sound
from hearth_whisper.audio.opening import open_apart
from hearth_whisper.audio.source import Source

from .hostile import MIB, atoms, packets, slow
from .sounds import encoded, tone, wav

HOUR_S = 3600.0
SECOND = wav(tone(1.0).tobytes())

# In a process of its own: memory that was once taken is not given back to a test's.
READER = """
import sys
from pathlib import Path
from hearth_serving.errors import ServiceError
from hearth_whisper.audio.decode import open_sound
from hearth_whisper.audio.source import Source
from hearth_whisper.recognising.pieces import pieces

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

def read(file):
    try:
        heard = sum(piece.samples.size for piece in pieces(open_sound(Source(file), 4 * 3600)))
        return heard // 16_000
    except ServiceError as error:
        return error.code

with open(sys.argv[1], "rb") as usual:
    read(usual)
before = most()
with open(sys.argv[2], "rb") as file:
    print(read(file), most() - before)
"""


def read_apart(folder: Path, data: bytes) -> tuple[str, int]:
    """Return what came of a file in a new process, and how many MiB it took at most."""
    usual, file = folder / "usual", folder / "file"
    usual.write_bytes(SECOND)
    file.write_bytes(data)
    here = Path(__file__).parents[2]
    path = os.pathsep.join([str(here), str(here.parent / "serving")])
    ended = subprocess.run(
        [sys.executable, "-c", READER, str(usual), str(file)],
        env={"PYTHONPATH": path},
        timeout=120,
        capture_output=True,
        text=True,
        check=True,
    )
    came, took = ended.stdout.split()
    return came, int(took)


@pytest.mark.parametrize(
    "data",
    [packets(40 * MIB), packets(8_000, 40 * MIB), packets(12 * MIB), packets(7 * MIB), slow()],
    ids=["packet over what is read at once", "such one later", "packet", "frame", "1 Hz"],
)
def test_a_small_file_takes_little_memory(tmp_path: Path, data: bytes) -> None:
    came, took_mib = read_apart(tmp_path, data)
    assert came == "unreadable_audio"
    assert took_mib < 64


def test_hours_take_what_a_piece_of_them_takes(tmp_path: Path) -> None:
    # Each sample that is read becomes eight.
    long = encoded("flac", "flac", tone(HOUR_S, 2_000, 100), 2_000)
    came, took_mib = read_apart(tmp_path, long)
    assert int(came) == pytest.approx(HOUR_S, abs=2)
    assert took_mib < 100


class Counted(io.BytesIO):
    """Counts what is read of it, and says when it begins."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.taken = 0
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def read(self, size: int | None = -1) -> bytes:
        self.begun.set()
        self.go_on.wait(30)
        data = super().read(size)
        self.taken += len(data)
        return data


def test_a_head_without_end_is_read_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_OPENING_BYTES", MIB)
    file = Counted(atoms(4 * MIB))
    with pytest.raises(ServiceError, match="no audio"):
        open_sound(Source(file), HOUR_S)
    assert MIB < file.taken < 1.2 * MIB


def test_what_opens_in_spite_of_its_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_OPENING_BYTES", 20_000)
    file = encoded("ogg", "libopus", tone(20.0, 48_000), 48_000)
    with pytest.raises(ServiceError, match="no audio"):
        open_sound(Source(io.BytesIO(file)), HOUR_S)


def test_opening_has_its_time_and_listening_has_all_it_needs() -> None:
    now = 0.0
    reading = Source(io.BytesIO(bytes(100)), lambda: now)
    assert reading.read(10)
    now = source.MOST_OPENING_S - 1
    assert reading.read(10)
    now += 2
    assert not reading.read(10)
    assert reading.refused
    other = Source(io.BytesIO(bytes(100)), lambda: now)
    assert other.read(10)
    other.opened()
    now += 1000
    assert other.read(10)
    assert not other.refused


def test_nothing_is_read_at_once_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_AT_ONCE_BYTES", 50)
    file = Counted(bytes(100))
    reading = Source(file)
    reading.opened()
    assert len(reading.read(50)) == 50
    assert not reading.read(51)
    assert (reading.refused, file.taken) == (True, 50)


def test_what_nobody_wants_has_come_to_its_end() -> None:
    file = io.BytesIO(SECOND)
    reading = Source(file)
    recording = open_sound(reading, HOUR_S)
    recording.close()
    file.close()
    assert (reading.read(10), reading.seek(5), reading.tell()) == (b"", 0, 0)
    assert not reading.refused


async def test_an_opening_ends_when_nobody_waits_for_it() -> None:
    file = Counted(atoms(16 * MIB))
    file.go_on.clear()
    waiting = asyncio.create_task(open_apart(file, HOUR_S))
    assert await asyncio.to_thread(file.begun.wait, 10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    file.go_on.set()
    await asyncio.wrap_future(opening._POOL.submit(lambda: None))
    threads = opening._POOL._max_workers
    # All of them are free again, and this one has read no further.
    barrier = threading.Barrier(threads)
    free = [opening._POOL.submit(barrier.wait, 10) for _ in range(threads)]
    await asyncio.gather(*map(asyncio.wrap_future, free))
    assert file.taken < MIB


async def test_a_file_that_opens_when_nobody_waits_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Opened:
        def close(self) -> None:
            closed.set()

    def slowly(*_: object) -> Opened:
        begun.set()
        go_on.wait(10)
        return Opened()

    monkeypatch.setattr(opening, "open_sound", slowly)
    waiting = asyncio.create_task(open_apart(io.BytesIO(), HOUR_S))
    assert await asyncio.to_thread(begun.wait, 10)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not closed.is_set()
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 10)


async def test_nobody_else_waits_for_an_opening() -> None:
    files = [Counted(SECOND) for _ in range(40)]
    for file in files:
        file.go_on.clear()
    waiting = [asyncio.create_task(open_apart(file, HOUR_S)) for file in files]
    assert await asyncio.to_thread(files[0].begun.wait, 10)
    # The pool of everybody has all its threads.
    await asyncio.to_thread(lambda: None)
    assert not any(each.done() for each in waiting)
    for file in files:
        file.go_on.set()
    for recording in await asyncio.gather(*waiting):
        recording.close()

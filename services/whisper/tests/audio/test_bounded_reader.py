"""The cost of opening an untrusted file: bytes, seconds, memory; and its cancellation."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.audio import bounded_reader, decode
from hearth_whisper.audio.bounded_reader import BoundedReader
from hearth_whisper.audio.decode import open_audio, open_upload

from .hostile import MIB, atoms, packets, slow
from .sounds import encoded, tone, wav

HOUR_S = 3600.0
SECOND = wav(tone(1.0).tobytes())

# In a separate process: the peak memory of this one never falls.
READER = """
import sys
from pathlib import Path
from hearth_serving.errors import ServiceError
from hearth_whisper.audio.decode import open_audio
from hearth_whisper.audio.bounded_reader import BoundedReader
from hearth_whisper.recognition.transcription import split_audio

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024

def read(file):
    try:
        chunks = split_audio(open_audio(BoundedReader(file), 4 * 3600))
        samples = sum(chunk.samples.size for chunk in chunks)
        return samples // 16_000
    except ServiceError as error:
        return error.code

with open(sys.argv[1], "rb") as usual:
    read(usual)
before = most()
with open(sys.argv[2], "rb") as file:
    print(read(file), most() - before)
"""


def read_apart(folder: Path, data: bytes) -> tuple[str, int]:
    """Return the result of a file in a new process, and its peak memory in MiB."""
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
    ids=["packet above the read limit", "the same later", "packet", "frame", "1 Hz"],
)
def test_a_small_file_takes_little_memory(tmp_path: Path, data: bytes) -> None:
    came, took_mib = read_apart(tmp_path, data)
    assert came == "unreadable_audio"
    assert took_mib < 64


def test_hours_take_the_memory_of_one_chunk(tmp_path: Path) -> None:
    # Resampling makes eight of each sample.
    long = encoded("flac", "flac", tone(HOUR_S, 2_000, 100), 2_000)
    came, took_mib = read_apart(tmp_path, long)
    assert int(came) == pytest.approx(HOUR_S, abs=2)
    assert took_mib < 100


class Counted(io.BytesIO):
    """Counts the bytes that are read, and reports the first read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.taken = 0
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def read(self, size: int | None = -1) -> bytes:
        self.started.set()
        self.go_on.wait(30)
        data = super().read(size)
        self.taken += len(data)
        return data


def test_an_endless_header_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reader, "MAX_OPENING_BYTES", MIB)
    file = Counted(atoms(4 * MIB))
    with pytest.raises(ServiceError, match="no audio"):
        open_audio(BoundedReader(file), HOUR_S)
    assert MIB < file.taken < 1.2 * MIB


def test_a_file_that_exceeds_the_limit_and_still_opens_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_reader, "MAX_OPENING_BYTES", 20_000)
    file = encoded("ogg", "libopus", tone(20.0, 48_000), 48_000)
    with pytest.raises(ServiceError, match="no audio"):
        open_audio(BoundedReader(io.BytesIO(file)), HOUR_S)


def test_opening_has_a_deadline_and_decoding_has_none() -> None:
    now = 0.0
    reading = BoundedReader(io.BytesIO(bytes(100)), lambda: now)
    assert reading.read(10)
    now = bounded_reader.MAX_OPENING_S - 1
    assert reading.read(10)
    now += 2
    assert not reading.read(10)
    assert reading.limit_exceeded
    other = BoundedReader(io.BytesIO(bytes(100)), lambda: now)
    assert other.read(10)
    other.opened()
    now += 1000
    assert other.read(10)
    assert not other.limit_exceeded


def test_a_read_above_the_limit_returns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reader, "MAX_READ_BYTES", 50)
    file = Counted(bytes(100))
    reading = BoundedReader(file)
    reading.opened()
    assert len(reading.read(50)) == 50
    assert not reading.read(51)
    assert (reading.limit_exceeded, file.taken) == (True, 50)


def test_a_closed_file_reads_as_ended() -> None:
    file = io.BytesIO(SECOND)
    reading = BoundedReader(file)
    recording = open_audio(reading, HOUR_S)
    recording.close()
    file.close()
    assert (reading.read(10), reading.seek(5), reading.tell()) == (b"", 0, 0)
    assert not reading.limit_exceeded


async def test_cancelling_ends_the_opening() -> None:
    file = Counted(atoms(16 * MIB))
    file.go_on.clear()
    waiting = asyncio.create_task(open_upload(file, HOUR_S))
    assert await asyncio.to_thread(file.started.wait, 10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    file.go_on.set()
    await asyncio.wrap_future(decode._OPENING_POOL.submit(lambda: None))
    threads = decode._OPENING_POOL._max_workers
    # All threads are free again, and the file was not read further.
    barrier = threading.Barrier(threads)
    free = [decode._OPENING_POOL.submit(barrier.wait, 10) for _ in range(threads)]
    await asyncio.gather(*map(asyncio.wrap_future, free))
    assert file.taken < MIB


async def test_a_file_that_opens_after_the_cancellation_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Opened:
        def close(self) -> None:
            closed.set()

    def slowly(*_: object) -> Opened:
        started.set()
        go_on.wait(10)
        return Opened()

    monkeypatch.setattr(decode, "open_audio", slowly)
    waiting = asyncio.create_task(open_upload(io.BytesIO(), HOUR_S))
    assert await asyncio.to_thread(started.wait, 10)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not closed.is_set()
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 10)


async def test_opening_does_not_occupy_the_default_pool() -> None:
    files = [Counted(SECOND) for _ in range(40)]
    for file in files:
        file.go_on.clear()
    waiting = [asyncio.create_task(open_upload(file, HOUR_S)) for file in files]
    assert await asyncio.to_thread(files[0].started.wait, 10)
    # The default pool is not occupied.
    await asyncio.to_thread(lambda: None)
    assert not any(each.done() for each in waiting)
    for file in files:
        file.go_on.set()
    for recording in await asyncio.gather(*waiting):
        recording.close()

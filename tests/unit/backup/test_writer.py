"""A backup beside a program that commits 50 times a second loses nothing that was acknowledged."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.backup.restore import read_backup, restore_backup
from tests.unit.backup.local import KEY, House, backup, place

# A separate program, like a service: it writes a file, names it in a row, commits, and only then
# prints the row with the time. The rows before it make the copy take a while.
WRITER = """
import os, sqlite3, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
database = sqlite3.connect(folder / "webui.db", timeout=120, isolation_level=None)
number = 0
due = time.monotonic()
while True:
    name = f"uploads/{number}"
    (folder / name).write_text(str(number))
    database.execute("INSERT INTO chat VALUES (?, ?)", (number, name))
    print(number, time.time(), flush=True)
    number += 1
    due += 0.02
    time.sleep(max(0, due - time.monotonic()))
"""
PADDING_ROWS, PADDING_BYTES = 4000, 20_000


@pytest.fixture(params=["wal", "delete"])
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path / "data"
    (folder / "uploads").mkdir(parents=True)
    database = sqlite3.connect(folder / "webui.db")
    database.execute(f"PRAGMA journal_mode={request.param}")
    database.execute("CREATE TABLE chat (id INTEGER PRIMARY KEY, file TEXT)")
    database.execute("CREATE TABLE padding (text BLOB)")
    rows = ((bytes(PADDING_BYTES),) for _ in range(PADDING_ROWS))
    database.executemany("INSERT INTO padding VALUES (?)", rows)
    database.commit()
    database.close()
    return folder


@pytest.fixture
def writer(data: Path) -> Iterator[subprocess.Popen[str]]:
    """The program at work; it has acknowledged some rows already."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()


def test_no_acknowledged_row_is_lost_and_no_row_names_a_missing_file(
    tmp_path: Path, data: Path, writer: subprocess.Popen[str]
) -> None:
    assert writer.stdout is not None
    printed = [writer.stdout.readline() for _ in range(100)]
    made = backup(tmp_path / "to", place(data))
    assert made.good, made
    # It goes on after the backup as before it.
    while float((line := writer.stdout.readline()).split()[1]) < made.path.stat().st_mtime:
        printed.append(line)
    writer.kill()
    (began,) = made.began.values()
    acknowledged = [int(line.split()[0]) for line in printed if float(line.split()[1]) < began]
    assert len(acknowledged) >= 100
    later = len(printed) - len(acknowledged)

    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "data").rename(tmp_path / "original")
    empty.rename(tmp_path / "data")
    house = House(tmp_path, [place(data)])
    restore_backup(
        made.path, KEY, read_backup(made.path, KEY), house.target(), False, lambda text: None
    )
    database = sqlite3.connect(data / "webui.db")
    rows = database.execute("SELECT id, file FROM chat ORDER BY id").fetchall()
    database.close()
    numbers = [number for number, _ in rows]
    assert numbers == list(range(len(numbers)))
    assert set(acknowledged) <= set(numbers)
    assert [file for _, file in rows if not (data / file).is_file()] == []
    print(
        f"{len(acknowledged)} rows acknowledged before, {later} while and after, {len(rows)} kept"
    )

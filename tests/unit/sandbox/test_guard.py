"""The guard deletes what is over, stops what fills the disk, and ends with the last sandbox."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from hearth.sandbox import guard, lifecycle, units
from hearth.sandbox.guard import Guard, written_bytes
from hearth.sandbox.lifecycle import DISK_BYTES, DISK_RESERVE_BYTES, Sandbox, create_sandbox
from tests.unit.sandbox.conftest import statvfs
from tests.unit.sandbox.fake_incus import Incus

ENOUGH = 20 << 30


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How much each sandbox wrote."""
    found: dict[str, int] = {}
    monkeypatch.setattr(guard, "written_bytes", lambda one: found.get(one.name, 0))
    return found


def test_it_ends_with_the_last_sandbox(
    incus: Incus, written: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_sandbox(None)
    monkeypatch.setattr(os, "statvfs", lambda path: statvfs(ENOUGH))
    monkeypatch.setattr(guard, "_MEASURE_S", 0)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            lifecycle.delete_sandbox(made.name)

    guard.guard_sandboxes(sleep)
    assert len(pauses) == 2


def test_it_sweeps_and_measures_at_their_times(
    incus: Incus, written: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []

    def measure() -> list[Sandbox]:
        did.append("measure")
        return []

    monkeypatch.setattr(guard, "sweep", lambda: did.append("sweep"))
    monkeypatch.setattr(guard, "list_sandboxes", measure)
    one = Guard()

    def look(now: float, free: int) -> list[str]:
        did.clear()
        one.look(now, free)
        return [*did]

    assert look(0, ENOUGH) == ["sweep", "measure"]
    assert look(1, ENOUGH) == []
    assert look(2, ENOUGH - (64 << 20)) == []
    assert look(3, ENOUGH - (192 << 20)) == ["measure"]
    assert look(10, ENOUGH - (192 << 20)) == ["sweep"]
    assert look(33, ENOUGH) == ["sweep", "measure"]
    assert look(34, DISK_RESERVE_BYTES - 1) == ["measure"]


def test_only_the_one_that_writes_too_much_is_stopped(
    incus: Incus, written: dict[str, int]
) -> None:
    one, other = create_sandbox(None), create_sandbox(None)
    written[one.name], written[other.name] = DISK_BYTES + 1, DISK_BYTES
    assert Guard().look(0, ENOUGH)
    assert incus.machines[one.name].status == "Stopped"
    assert incus.machines[other.name].status == "Running"
    assert "wrote more than 1024 MiB" in lifecycle.list_sandboxes()[0].note
    # It is not stopped again, and no service ever is.
    incus.did.clear()
    Guard().look(0, ENOUGH)
    assert incus.did == []
    assert incus.machines["kokoro"].status == "Running"


def test_all_are_stopped_before_the_machines_disk_is_full(
    incus: Incus, written: dict[str, int]
) -> None:
    made = [create_sandbox(None) for _ in range(3)]
    Guard().look(0, DISK_RESERVE_BYTES - 1)
    assert {incus.machines[one.name].status for one in made} == {"Stopped"}
    assert incus.machines["kokoro"].status == "Running"


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Sandbox, Path]:
    monkeypatch.setattr(lifecycle, "ROOTS", tmp_path)
    root = tmp_path / "sb-00000000/rootfs"
    root.mkdir(parents=True)
    (root / "copied").write_bytes(b"x" * 2**20)
    time.sleep(0.02)
    ready = time.time()
    time.sleep(0.02)
    return Sandbox("sb-00000000", "kokoro", ready, ready, ready + 60), root


def test_what_was_written_since_counts_and_no_link_does(
    sandbox: tuple[Sandbox, Path], tmp_path: Path
) -> None:
    one, root = sandbox
    assert written_bytes(one) == 0
    (root / "d").mkdir()
    (root / "d/new").write_bytes(os.urandom(3 << 20))
    (tmp_path / "large").write_bytes(os.urandom(9 << 20))
    (root / "link").symlink_to(tmp_path / "large")
    (root / "d/out").symlink_to(tmp_path)
    assert 3 << 20 <= written_bytes(one) < 4 << 20


def test_more_files_than_any_program_needs_count_as_too_much(
    sandbox: tuple[Sandbox, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, root = sandbox
    monkeypatch.setattr(guard, "_MOST_FILES", 20)
    for number in range(30):
        (root / str(number)).touch()
    assert written_bytes(one) > DISK_BYTES


def test_the_unit_waits_for_a_sandbox_in_the_houses_pool() -> None:
    written: Any = units.unit_files("/root/hearth")
    path = written["hearth-sandboxes.path"]
    assert "PathExistsGlob=/var/lib/incus/storage-pools/hearth/containers/sb-*\n" in path
    service = written["hearth-sandboxes.service"]
    assert "ExecStart=/root/hearth/scripts/hearth sandbox guard\n" in service
    assert "Restart=on-failure\n" in service
    # It would only ever be started by the other one.
    assert "[Install]" not in service

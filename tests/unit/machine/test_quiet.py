"""A program that measures the machine has it for itself."""

from __future__ import annotations

import threading
from pathlib import Path

from hearth.machine.quiet import turn

WITHIN_S = 30


def test_steps_work_side_by_side_and_a_measurement_waits_for_them(tmp_path: Path) -> None:
    lock, measured, started = tmp_path / "lock", threading.Event(), threading.Event()

    def measure() -> None:
        started.set()
        with turn(alone=True, lock=lock):
            measured.set()

    thread = threading.Thread(target=measure)
    with turn(alone=False, lock=lock), turn(alone=False, lock=lock):
        thread.start()
        assert started.wait(WITHIN_S)
        assert not measured.wait(0.2)
    assert measured.wait(WITHIN_S)
    thread.join(WITHIN_S)


def test_other_steps_wait_for_a_measurement(tmp_path: Path) -> None:
    lock, worked = tmp_path / "lock", threading.Event()

    def work() -> None:
        with turn(alone=False, lock=lock):
            worked.set()

    thread = threading.Thread(target=work)
    with turn(alone=True, lock=lock):
        thread.start()
        assert not worked.wait(0.2)
    assert worked.wait(WITHIN_S)
    thread.join(WITHIN_S)

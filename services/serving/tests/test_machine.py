"""What a machine lets a program use."""

import os
from pathlib import Path

from hearth_serving.machine import Machine, this_machine


def machine_files(root: Path, quota: str) -> None:
    for number in os.sched_getaffinity(0):
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number}\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD Ryzen 7 5800U\n")
    (root / "proc/self/cgroup").write_text("0::/system.slice/speech.service\n")
    inner = root / "sys/fs/cgroup/system.slice/speech.service"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text(quota)


def test_a_machine_counts_only_what_it_may_use(tmp_path: Path) -> None:
    machine_files(tmp_path, "100000 100000\n")
    assert this_machine(tmp_path) == Machine("AMD Ryzen 7 5800U", 1, 1)
    assert this_machine().cores >= 1


def test_threads_are_tried_around_the_physical_cores() -> None:
    assert Machine("", 1, 1).candidates() == (1,)
    assert Machine("", 2, 2).candidates() == (1, 2)
    assert Machine("", 4, 8).candidates() == (2, 4, 8)

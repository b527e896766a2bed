"""Memory is measured with a buffer beyond the caches, or not at all."""

import ctypes
import itertools
from pathlib import Path

import pytest

from hearth.machine import bandwidth
from hearth.machine.facts import drivers


def machine(root: Path, cache: str, available_kib: int) -> Path:
    for cpu in range(4):
        index = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
        index.mkdir(parents=True)
        # Two caches, each shared by two processors.
        (index / "shared_cpu_list").write_text(f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n")
        (index / "size").write_text(f"{cache}\n")
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available_kib} kB\n")
    return root


def test_the_buffer_is_larger_than_all_caches_together(tmp_path: Path) -> None:
    assert bandwidth.buffer_bytes(tmp_path) == bandwidth.LEAST_BYTES
    assert bandwidth.buffer_bytes(machine(tmp_path, "32768K", 0)) == 4 * 2 * 32 * 2**20


def test_a_machine_without_free_memory_is_not_measured(tmp_path: Path) -> None:
    assert bandwidth.copy_rates(machine(tmp_path, "32768K", 2**20))[0] == []


def test_every_byte_is_copied_and_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    move = ctypes.memmove

    def count(target: int, source: int, size: int) -> None:
        copied.append(size)
        move(target, source, size)

    monkeypatch.setattr("hearth.machine.bandwidth.ctypes.memmove", count)
    # Each look at the clock is a tenth of a second after the one before.
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks) / 10)
    rates = bandwidth._measure(2**20 + 7, 3)
    assert sum(copied) == (len(rates) + 1) * (2**20 + 7)
    assert rates == pytest.approx([20 * (2**20 + 7)] * bandwidth._LEAST_ROUNDS)


def test_a_driver_has_its_own_version_or_the_kernels(tmp_path: Path) -> None:
    for name, driver in (("a", "nvidia"), ("b", "amdgpu")):
        device = tmp_path / "sys/bus/pci/devices" / name
        device.mkdir(parents=True)
        (device / "class").write_text("0x030000\n")
        (tmp_path / "sys/module" / driver).mkdir(parents=True)
        (device / "driver").symlink_to(tmp_path / "sys/module" / driver)
    (tmp_path / "sys/module/nvidia/version").write_text("580.95\n")
    found = drivers(tmp_path)
    assert found["nvidia"] == "580.95"
    assert found["amdgpu"].startswith("Linux ")

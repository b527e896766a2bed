"""What slows a machine down, and the memory of cards, from files as the kernel has them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hearth.machine import card_usage, nvidia, slowed

CPU = "sys/devices/system/cpu/cpu0"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_heat_counts_only_while_it_was_measured(tmp_path: Path) -> None:
    count = f"{CPU}/thermal_throttle/core_throttle_count"
    write(tmp_path, count, "7\n")
    before = slowed.heat_events(tmp_path)
    assert slowed.throttled(before, tmp_path) == ""
    write(tmp_path, count, "9\n")
    why = "the processor became too hot 2 times and slowed itself down"
    assert slowed.throttled(before, tmp_path) == why


def test_a_clock_that_is_held_down_is_said(tmp_path: Path) -> None:
    write(tmp_path, f"{CPU}/cpufreq/cpuinfo_max_freq", "4400000")
    write(tmp_path, f"{CPU}/cpufreq/scaling_max_freq", "4300000")
    assert slowed.throttled(0, tmp_path) == ""
    write(tmp_path, f"{CPU}/cpufreq/scaling_max_freq", "1600000")
    why = "the processor may run at 1.6 GHz of its 4.4 GHz only"
    assert slowed.throttled(0, tmp_path) == why


def module(root: Path, number: int, size: int) -> None:
    folder = root / f"sys/firmware/dmi/entries/17-{number}"
    folder.mkdir(parents=True)
    (folder / "raw").write_bytes(struct.pack("<BBHHHHHH", 17, 84, 1, 0, 0, 64, 64, size))


@pytest.mark.parametrize(
    ("sizes", "found"), [([], None), ([0, 0], None), ([16384, 0], 1), ([16384, 16384], 2)]
)
def test_empty_slots_are_no_modules(tmp_path: Path, sizes: list[int], found: int | None) -> None:
    for number, size in enumerate(sizes):
        module(tmp_path, number, size)
    assert slowed.memory_modules(tmp_path) == found


def test_a_table_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    module(tmp_path, 0, 16384)
    module(tmp_path, 1, 16384)
    (tmp_path / "sys/firmware/dmi/entries/17-1/raw").write_bytes(b"\x11")
    assert slowed.memory_modules(tmp_path) == 1


def test_the_memory_of_cards_is_by_card_and_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "readings", lambda figure, root: [5.0, None])
    write(tmp_path, "sys/class/drm/card1/device/mem_info_vram_used", "100")
    write(tmp_path, "sys/class/drm/card1/device/mem_info_gtt_used", "2000")
    assert card_usage.memory_used(tmp_path) == {
        "NVIDIA 0": 5,
        "card1, its own memory": 100,
        "card1, the machine's memory": 2000,
    }
    monkeypatch.undo()
    assert card_usage.memory_used(tmp_path / "none") == {}

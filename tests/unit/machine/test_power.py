"""Joules of a span of time, from files as the kernel has them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hearth.machine import nvidia, power


def rapl(root: Path, name: str, zone: str, joules: float, most: int = 10**9) -> Path:
    folder = root / "sys/class/powercap" / zone
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")
    (folder / "energy_uj").write_text(f"{int(joules * 1e6)}\n")
    return folder / "energy_uj"


def hwmon(root: Path, driver: str, **files: int) -> Path:
    folder = root / "sys/class/hwmon/hwmon3"
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{driver}\n")
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


async def test_the_processors_counter_is_read_before_and_after(tmp_path: Path) -> None:
    count = rapl(tmp_path, "package-0", "intel-rapl:0", 100.0)
    rapl(tmp_path, "core", "intel-rapl:0:0", 5.0)
    rapl(tmp_path, "psys", "intel-rapl:1", 5.0)
    meter = power.power_meter(tmp_path)
    assert meter.names == ["processor (package-0)"]
    async with meter.measured() as energy:
        count.write_text(f"{int(112.5e6)}\n")
    assert energy.total == 12.5
    assert energy.watts == pytest.approx(12.5 / energy.seconds)


async def test_a_counter_that_starts_again_is_no_negative_energy(tmp_path: Path) -> None:
    count = rapl(tmp_path, "package-0", "intel-rapl:0", 990.0)
    async with power.power_meter(tmp_path).measured() as energy:
        count.write_text("5000000\n")
    assert energy.total == 15.0


async def test_a_sensor_of_watts_is_multiplied_by_time(tmp_path: Path) -> None:
    hwmon(tmp_path, "amdgpu", power1_average=40_000_000)
    meter = power.power_meter(tmp_path)
    async with meter.measured() as energy:
        await asyncio.sleep(0.1)
    assert energy.watts == pytest.approx(40.0)
    assert energy.seconds > 0.09


async def test_an_apus_gpu_is_not_counted_beside_its_processor(tmp_path: Path) -> None:
    rapl(tmp_path, "package-0", "intel-rapl:0", 1.0)
    chip = hwmon(tmp_path, "amdgpu", power1_input=9_000_000)
    (chip / "device").mkdir()
    (chip / "device/mem_info_vram_total").write_text(str(2**29))
    (chip / "device/mem_info_gtt_total").write_text(str(2**35))
    assert power.power_meter(tmp_path).names == ["processor (package-0)"]
    (chip / "device/mem_info_vram_total").write_text(str(2**36))
    assert len(power.power_meter(tmp_path).names) == 2


async def test_intels_card_counts_joules(tmp_path: Path) -> None:
    chip = hwmon(tmp_path, "xe", energy1_input=1_000_000)
    async with power.power_meter(tmp_path).measured() as energy:
        (chip / "energy1_input").write_text("4000000")
    assert energy.joules == {"card (xe, hwmon3)": 3.0}


@pytest.mark.parametrize("driver", ["nvme", "k10temp", "power_meter"])
def test_other_sensors_are_no_cards(tmp_path: Path, driver: str) -> None:
    hwmon(tmp_path, driver, power1_average=1)
    assert power.power_meter(tmp_path).names == []


async def test_a_machine_that_tells_nothing_measures_nothing(tmp_path: Path) -> None:
    async with power.power_meter(tmp_path).measured() as energy:
        pass
    assert (energy.total, energy.watts) == (None, None)


async def test_a_sensor_that_has_no_value_any_more_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "power_sensors", lambda root: {"card (NVIDIA 0)": lambda: None})
    async with power.power_meter(tmp_path).measured() as energy:
        await asyncio.sleep(0.05)
    assert energy.joules == {}

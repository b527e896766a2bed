"""Figures of NVIDIA's cards, with a fake of the driver's library: no machine of ours has a card."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hearth.machine import nvidia

GIB = 1 << 30


class NVMLError(Exception):
    """The library's own error."""


class Fake(ModuleType):
    """What NVIDIA's `pynvml` offers of two cards; the second has no sensor for its power."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *, works: bool = True) -> None:
        super().__init__("pynvml")
        self.works, self.open, self.reads = works, 0, 0

    def nvmlInit(self) -> None:
        if not self.works:
            raise NVMLError("Driver/library version mismatch")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        self.reads += 1
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetMemoryInfo(self, card: int) -> Any:
        return SimpleNamespace(total=24 * GIB, used=card * GIB)

    def nvmlDeviceGetUtilizationRates(self, card: int) -> Any:
        return SimpleNamespace(gpu=50, memory=10)

    def nvmlDeviceGetTemperature(self, card: int, sensor: int) -> int:
        return 61

    def nvmlDeviceGetPowerUsage(self, card: int) -> int:
        if card == 1:
            raise NVMLError("Not Supported")
        return 120_500


def machine(root: Path, *states: str) -> Path:
    """Make a machine's files about cards in these states of power."""
    for number, state in enumerate(states):
        folder = root / f"sys/bus/pci/drivers/nvidia/0000:0{number}:00.0/power"
        folder.mkdir(parents=True)
        (folder / "runtime_status").write_text(f"{state}\n")
    return root


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_each_card_has_its_figures(nvml: Fake, tmp_path: Path) -> None:
    found = nvidia.lines(machine(tmp_path, "suspended", "active"))
    values = [line for line in found if not line.startswith("#")]
    assert values == [
        'nvidia_memory_used_bytes{card="0"} 0.0',
        f'nvidia_memory_used_bytes{{card="1"}} {float(GIB)!r}',
        f'nvidia_memory_bytes{{card="0"}} {float(24 * GIB)!r}',
        f'nvidia_memory_bytes{{card="1"}} {float(24 * GIB)!r}',
        'nvidia_busy_ratio{card="0"} 0.5',
        'nvidia_busy_ratio{card="1"} 0.5',
        'nvidia_temperature_celsius{card="0"} 61.0',
        'nvidia_temperature_celsius{card="1"} 61.0',
        'nvidia_power_watts{card="0"} 120.5',
    ]
    assert found[:2] == [
        "# HELP nvidia_memory_used_bytes Memory of the card in use.",
        "# TYPE nvidia_memory_used_bytes gauge",
    ]
    assert nvml.open == 0


@pytest.mark.parametrize("states", [(), ("suspended", "suspended")])
def test_no_card_is_read_that_is_not_there_or_sleeps(
    nvml: Fake, tmp_path: Path, states: tuple[str, ...]
) -> None:
    assert nvidia.lines(machine(tmp_path, *states)) == []
    assert nvml.reads == 0


def test_a_driver_that_does_not_work_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Fake(works=False))
    assert nvidia.lines(machine(tmp_path, "active")) == []


def test_one_figure_of_each_card_is_none_where_it_has_no_sensor(nvml: Fake, tmp_path: Path) -> None:
    root = machine(tmp_path, "active", "active")
    assert nvidia.readings(nvidia.POWER, root) == [120.5, None]
    assert nvidia.readings(nvidia.MEMORY_USED, root) == [0.0, float(GIB)]
    sensors = nvidia.power_sensors(root)
    assert {name: read() for name, read in sensors.items()} == {"card (NVIDIA 0)": 120.5}
    assert nvml.open == 0


def test_a_sleeping_card_is_not_woken_for_its_power(nvml: Fake, tmp_path: Path) -> None:
    assert nvidia.power_sensors(machine(tmp_path, "suspended")) == {}
    assert nvml.reads == 0


@pytest.mark.parametrize(
    ("bits", "why"),
    [
        (0x0, ""),
        (0x1, ""),
        (0x40, "NVIDIA 0 is too hot, so its driver slows it down"),
        (0x44, "NVIDIA 0 is too hot, so its driver slows it down"),
        (0x80, "NVIDIA 0 gets too little power, so its driver slows it down"),
        (0x4, "NVIDIA 0 is at the limit of its power"),
    ],
)
@pytest.mark.parametrize("name", ["Event", "Throttle"])
def test_the_driver_says_why_it_slows_a_card_down(
    nvml: Fake, tmp_path: Path, bits: int, why: str, name: str
) -> None:
    setattr(nvml, f"nvmlDeviceGetCurrentClocks{name}Reasons", lambda card: bits)
    assert nvidia.throttle_reason(machine(tmp_path, "active")) == why

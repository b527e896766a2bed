"""The energy that this machine takes, where it says so: RAPL, hwmon and NVIDIA's cards.

RAPL counts the joules of whole processors. Sensors of cards say watts, which are sampled and
multiplied by time. A disk, a fan and the power supply's losses are in none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from hearth.machine import nvidia
from hearth.machine.facts import text_of

_EVERY_S = 0.5
# Sensors of watts that belong to a card; a sensor of the whole board would count it twice.
_CARDS = frozenset({"amdgpu", "i915", "xe"})

Watts = Callable[[], float | None]
"""Reads a sensor; None while it has no value."""


@dataclass(slots=True)
class Counter:
    """A counter of microjoules, which starts again at 0 after `most`."""

    path: Path
    most: int

    def read(self) -> int | None:
        """Return its value; None where it may not be read."""
        text = text_of(self.path)
        return int(text) if text.isdecimal() else None


@dataclass(slots=True)
class Energy:
    """The joules of one span of time, by what took them; empty where the machine does not say."""

    seconds: float = 0.0
    joules: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float | None:
        """All joules; None where nothing was measured."""
        return sum(self.joules.values()) if self.joules else None

    @property
    def watts(self) -> float | None:
        """The mean power; None where nothing was measured."""
        return self.total / self.seconds if self.total is not None and self.seconds else None


@dataclass(frozen=True, slots=True)
class PowerMeter:
    """The counters and sensors of this machine, by name."""

    counters: dict[str, Counter]
    sensors: dict[str, Watts]

    @property
    def names(self) -> list[str]:
        """What it measures, in a fixed order."""
        return [*self.counters, *self.sensors]

    @contextlib.asynccontextmanager
    async def measured(self) -> AsyncIterator[Energy]:
        """Measure while the body runs; the result is complete once it has ended."""
        energy, start = Energy(), time.perf_counter()
        before = {name: counter.read() for name, counter in self.counters.items()}
        samples: dict[str, list[float]] = {name: [] for name in self.sensors}
        watching = asyncio.create_task(self._sample(samples)) if self.sensors else None
        try:
            yield energy
        finally:
            if watching:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
            energy.seconds = time.perf_counter() - start
            for name, was in before.items():
                now = self.counters[name].read()
                if was is not None and now is not None:
                    passed = now - was if now >= was else now + self.counters[name].most - was
                    energy.joules[name] = passed / 1e6
            for name, seen in samples.items():
                if seen:
                    energy.joules[name] = sum(seen) / len(seen) * energy.seconds

    async def _sample(self, samples: dict[str, list[float]]) -> None:
        while True:
            for name, read in self.sensors.items():
                # A driver may take milliseconds to answer.
                if (watts := await asyncio.to_thread(read)) is not None:
                    samples[name].append(watts)
            await asyncio.sleep(_EVERY_S)


def power_meter(root: Path = Path("/")) -> PowerMeter:
    """Return what this machine can measure; some of it root alone may read."""
    counters = {}
    for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:[0-9]*")):
        # Zones within a package, such as its cores, are parts of the package's own count.
        if zone.name.count(":") == 1 and text_of(zone / "name").startswith("package"):
            most = text_of(zone / "max_energy_range_uj")
            counter = Counter(zone / "energy_uj", int(most) if most.isdecimal() else 0)
            if counter.read() is not None:
                counters[f"processor ({text_of(zone / 'name')})"] = counter
    sensors = nvidia.power_sensors(root)
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        driver = text_of(chip / "name")
        # The GPU of an AMD processor is a part of the processor's own count.
        if driver not in _CARDS or (driver == "amdgpu" and counters and _shares_memory(chip)):
            continue
        paths = (chip / name for name in ("energy1_input", "power1_average", "power1_input"))
        path = next((path for path in paths if text_of(path).isdecimal()), None)
        name = f"card ({driver}, {chip.name})"
        if path and path.name == "energy1_input":
            counters[name] = Counter(path, 2**64)
        elif path:
            sensors[name] = _microwatts(path)
    return PowerMeter(counters, sensors)


def _shares_memory(chip: Path) -> bool:
    """Return whether a GPU has less memory of its own than it may take of the machine's."""
    own, shared = (text_of(chip / f"device/mem_info_{kind}_total") for kind in ("vram", "gtt"))
    return own.isdecimal() and shared.isdecimal() and int(own) < int(shared)


def _microwatts(path: Path) -> Watts:
    def read() -> float | None:
        text = text_of(path)
        return int(text) / 1e6 if text.isdecimal() else None

    return read

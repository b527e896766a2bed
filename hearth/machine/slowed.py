"""What can make a machine slower than its parts are: heat, a limit of its clock, one memory module.

Each reads what the kernel shows; a machine that hides it, as a virtual one, gives no reason.
"""

import struct
from pathlib import Path

from hearth.machine import nvidia
from hearth.machine.facts import text_of

_CPUS = "sys/devices/system/cpu"
# A memory device in the firmware's tables, and where its size is; 0 is an empty slot.
_MEMORY_DEVICES, _SIZE_AT = "sys/firmware/dmi/entries", 0x0C
# Firmware rounds clocks.
_CLOCK_PART = 0.95


def heat_events(root: Path = Path("/")) -> int:
    """Return how often the processor has slowed itself down since its start; 0 where unknown."""
    counts = (root / _CPUS).glob("cpu[0-9]*/thermal_throttle/*_throttle_count")
    return sum(int(text) for count in counts if (text := text_of(count)).isdecimal())


def throttled(heat_before: int, root: Path = Path("/")) -> str:
    """Return what slows the processor or a card down; empty where nothing is seen.

    `heat_before` is what `heat_events` returned before the work.
    """
    if reason := nvidia.throttle_reason(root):
        return reason
    if (events := heat_events(root) - heat_before) > 0:
        return f"the processor became too hot {events} times and slowed itself down"
    for cpu in sorted((root / _CPUS).glob("cpu[0-9]*/cpufreq")):
        allowed, able = (text_of(cpu / f"{n}_max_freq") for n in ("scaling", "cpuinfo"))
        if allowed.isdecimal() and able.isdecimal() and int(allowed) < _CLOCK_PART * int(able):
            most, could = int(allowed) / 1e6, int(able) / 1e6
            return f"the processor may run at {most:.1f} GHz of its {could:.1f} GHz only"
    return ""


def memory_modules(root: Path = Path("/")) -> int | None:
    """Return how many memory modules the firmware lists; None where it lists none."""
    found = 0
    for device in (root / _MEMORY_DEVICES).glob("17-*/raw"):
        try:
            raw = device.read_bytes()
        except OSError:
            return None
        if len(raw) >= _SIZE_AT + 2:
            (size,) = struct.unpack_from("<H", raw, _SIZE_AT)
            found += size not in (0, 0xFFFF)
    return found or None

"""The graphics processors of a machine, with the memory that programs can really get.

NVIDIA's own library knows its cards; the kernel's files know the others. Where Mesa's Vulkan is
installed on the machine, its heaps are the last word on an integrated GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hearth.machine import nvidia
from hearth.machine.facts import SOFTWARE_DRIVERS, memory_bytes, text_of
from hearth.machine.own_memory import card_bytes, is_own
from hearth.plan.machine import Card, Rate

_AMD, _INTEL, _NVIDIA = "0x1002", "0x8086", "0x10de"
_AMD_PROCESSOR = "0x1022"
# GB per second and lane of a PCI Express generation, after its encoding.
_LANE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
_SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
# Share of the bus that large copies reach.
_BUS_SHARE = 0.8
# Mesa gives programs this share of a shared memory.
_INTEL_SHARE = 0.75
_PAGE = 4096


def read_cards(root: Path = Path("/")) -> Iterator[Card]:
    """Yield every GPU that can compute; one whose driver does not tell its memory is left out."""
    yield from _nvidia(root)
    for link in sorted((root / "sys/class/drm").glob("renderD*")):
        device = link / "device"
        vendor, driver = text_of(device / "vendor"), (device / "driver").resolve().name
        if driver in SOFTWARE_DRIVERS or vendor == _NVIDIA:
            continue
        card = None
        if vendor == _AMD:
            card = _amd(device.resolve(), root)
        elif vendor == _INTEL:
            card = _intel(device.resolve(), root)
        if card and card.memory_bytes > 0:
            yield card


def _nvidia(root: Path) -> Iterator[Card]:
    if any((root / nvidia.DRIVER).glob("*:*:*")):
        yield from (
            nvidia.with_library(
                lambda nvml: [_nvidia_card(nvml, handle) for handle in nvidia.handles(nvml)]
            )
            or ()
        )


def _nvidia_card(nvml: Any, handle: Any) -> Card:
    def asked(name: str, *more: Any) -> Any:
        try:
            return getattr(nvml, name)(handle, *more)
        except nvml.NVMLError:
            return 0

    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    clock = asked("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM) * 1e6
    width = asked("nvmlDeviceGetMemoryBusWidth") / 8
    lanes = asked("nvmlDeviceGetMaxPcieLinkWidth")
    lane = _LANE_GB_PER_S.get(asked("nvmlDeviceGetMaxPcieLinkGeneration"), 0)
    name = nvml.nvmlDeviceGetName(handle)
    return Card(
        name=name.decode() if isinstance(name, bytes) else str(name),
        backend="cuda",
        kind="dedicated",
        memory_bytes=int(memory.total),
        memory_source="NVML",
        held_bytes=max(0, int(memory.used) - _own_of_nvidia(nvml, handle)),
        # Two transfers per clock.
        bandwidth=_exact(2 * clock * width, "NVML: memory clock and bus width"),
        bus=_exact(lane * lanes * 1e9 * _BUS_SHARE, "NVML: link generation and lanes"),
    )


def _own_of_nvidia(nvml: Any, handle: Any) -> int:
    """Return what the house's instances hold of a card."""
    try:
        processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:
        return 0
    return sum(int(one.usedGpuMemory or 0) for one in processes if is_own(one.pid))


def _amd(device: Path, root: Path) -> Card | None:
    vram, gtt = _number(device / "mem_info_vram_total"), _number(device / "mem_info_gtt_total")
    used, own = _number(device / "mem_info_vram_used"), card_bytes(device.name, root)
    name = text_of(device / "product_name") or f"AMD {text_of(device / 'device')[2:]}"
    if not _is_integrated(device):
        return Card(
            name=name,
            backend="vulkan",
            kind="dedicated",
            memory_bytes=vram,
            memory_source="amdgpu: mem_info_vram_total",
            held_bytes=max(0, used - own),
            bandwidth=_kfd_bandwidth(device, root),
            bus=_link(device),
        )
    # The kernel caps what all GPUs may take of the memory together.
    cap = _number(root / "sys/module/ttm/parameters/pages_limit") * _PAGE or gtt
    source = f"amdgpu: {vram / 2**30:.1f} GiB set aside and {min(gtt, cap) / 2**30:.1f} GiB of GTT"
    source += ", the kernel's cap" if cap <= gtt else ""
    return Card(
        name=name,
        backend="vulkan",
        kind="shared",
        memory_bytes=vram + min(gtt, cap),
        memory_source=source,
        held_bytes=max(0, used + _number(device / "mem_info_gtt_used") - own),
    )


def _is_integrated(device: Path) -> bool:
    """Return whether the GPU is in a processor: it shares its slot with the processor's devices."""
    slot = device.name.rpartition(".")[0]
    siblings = device.parent.glob(f"{slot}.*")
    return any(text_of(each / "vendor") == _AMD_PROCESSOR for each in siblings)


def _kfd_bandwidth(device: Path, root: Path) -> Rate | None:
    """Return the bandwidth of a card's memory by its driver's clock and bus width."""
    for node in (root / "sys/class/kfd/kfd/topology/nodes").glob("*"):
        if _properties(node).get("location_id", -1) != _location(device):
            continue
        for bank in (node / "mem_banks").glob("*"):
            found = _properties(bank)
            width, clock = found.get("width", 0), found.get("mem_clk_max", 0) * 1e6
            # Transfers per clock: HBM, with its wide bus, 2; GDDR5 4; GDDR6 16.
            times = 2 if width >= 1024 else 4 if clock > 1.6e9 else 16
            return _exact(width / 8 * clock * times, "amdgpu: memory clock and bus width")
    return None


def _properties(folder: Path) -> dict[str, int]:
    rows = (line.split() for line in text_of(folder / "properties").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _location(device: Path) -> int:
    """Return a PCI address as KFD writes it: bus and function in one number."""
    try:
        _, bus, rest = device.name.split(":")
        slot, function = rest.split(".")
        return int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)
    except ValueError:
        return -2


def _intel(device: Path, root: Path) -> Card | None:
    name = f"Intel {text_of(device / 'device')[2:]}"
    # An integrated GPU is always here; a card lies behind a bridge and shows its memory as a BAR.
    if device.name == "0000:00:02.0":
        share = int(memory_bytes(root) * _INTEL_SHARE)
        source = f"Mesa gives programs {_INTEL_SHARE:.0%} of the memory"
        return Card(
            name=name,
            backend="vulkan",
            kind="shared",
            memory_bytes=share,
            memory_source=source,
        )
    size = max(_bars(device), default=0)
    if size < 2**30:
        return None
    return Card(
        name=name,
        backend="vulkan",
        kind="dedicated",
        memory_bytes=size,
        memory_source="PCI: its largest window",
        bus=_link(device),
    )


def _bars(device: Path) -> Iterator[int]:
    for line in text_of(device / "resource").splitlines()[:6]:
        words = line.split()
        if len(words) == 3 and int(words[1], 16):
            yield int(words[1], 16) - int(words[0], 16) + 1


def _link(device: Path) -> Rate | None:
    speed = text_of(device / "max_link_speed").split(" ")[0]
    lanes = text_of(device / "max_link_width")
    if speed not in _SPEEDS or not lanes.isdecimal():
        return None
    rate = _LANE_GB_PER_S[_SPEEDS[speed]] * int(lanes) * 1e9 * _BUS_SHARE
    return _exact(rate, "PCI: link speed and lanes")


def _exact(value: float, source: str) -> Rate | None:
    return Rate(median=value, low=value, high=value, source=source) if value > 0 else None


def _number(path: Path) -> int:
    text = text_of(path)
    return int(text) if text.isdecimal() else 0

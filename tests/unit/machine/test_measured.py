"""The machine as the planner measures it: real here, and many others from files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hearth.machine import measured
from hearth.machine.cards import read_cards
from hearth.machine.measured import measure
from hearth.plan.machine import GIB, Card, read_machine

MEMINFO = "MemTotal: 32000000 kB\nMemAvailable: 28000000 kB\n"
CPUINFO = "processor : 0\nmodel name : Test\nflags : avx2 fma nx\n\nprocessor : 1\n"


# The control group of a container that Podman runs in its unit.
CONTAINER = "system.slice/hearth-ollama.service/libpod-payload-0a1b2c"


def put(root: Path, files: dict[str, Any]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, {"proc/meminfo": MEMINFO, "proc/cpuinfo": CPUINFO})
    return tmp_path


def gpu(root: Path, address: str, driver: str, files: dict[str, Any], node: int = 128) -> Path:
    device = root / "sys/devices" / address
    put(device, files)
    drivers = root / "sys/bus/pci/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(drivers)
    link = root / f"sys/class/drm/renderD{node}"
    link.mkdir(parents=True)
    (link / "device").symlink_to(device)
    return device


def test_this_machine_is_measured() -> None:
    before = os.sched_getaffinity(0)
    found = measure()
    assert os.sched_getaffinity(0) == before
    assert found.cores == len(before)
    assert found.bandwidth
    assert 1e9 < found.bandwidth.low <= found.bandwidth.median <= found.bandwidth.high < 1e13
    assert found.matrix
    assert found.matrix.median > 1e9
    assert "copies of" in found.bandwidth.source


def test_a_machine_that_hides_everything_is_one_without_figures(root: Path) -> None:
    found = measure(root)
    assert (found.memory_bytes, found.held_bytes) == (32_768_000_000, 4_096_000_000)
    assert (found.bandwidth, found.matrix, found.disk, found.cards) == (None, None, None, ())
    assert (found.cores, found.features) == (2, ("avx2", "fma"))
    assert any("is assumed" in note for note in found.notes)


def test_what_the_house_itself_holds_is_not_others(root: Path) -> None:
    put(
        root,
        {
            "sys/fs/cgroup/lxc.payload.ollama/memory.stat": "anon 1000000000\nfile 5\nshmem 500",
            f"sys/fs/cgroup/{CONTAINER}/memory.stat": "anon 2000000\nfile 5",
            "sys/fs/cgroup/system.slice/memory.stat": "anon 7000",
        },
    )
    assert measure(root).held_bytes == 4_096_000_000 - 1_000_000_500 - 2_000_000


def test_what_the_house_holds_is_known_where_groups_do_not_account_for_it(root: Path) -> None:
    status = "RssAnon:\t 1000 kB\nRssFile:\t 5 kB\nRssShmem:\t 24 kB"
    for pid, group in ((50, "lxc.payload.ollama/x"), (60, "user.slice")):
        put(root / f"proc/{pid}", {"cgroup": f"0::/{group}", "status": status})
    assert measure(root).held_bytes == 4_096_000_000 - 1024 * 1024


def test_a_card_is_not_held_by_the_houses_own_models(root: Path) -> None:
    files = {"vendor": "0x1002", "device": "0x1", "mem_info_vram_total": 8 * GIB}
    gpu(root, "0000:03:00.0", "amdgpu", files | {"mem_info_vram_used": 9 * GIB})
    client = "drm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-memory-vram:\t4194304 KiB"
    groups = ("lxc.payload.ollama/system.slice", CONTAINER, "user.slice")
    for pid, group in enumerate(groups, 50):
        put(
            root / f"proc/{pid}",
            # Two descriptors of one client.
            {
                "cgroup": f"0::/{group}",
                "fdinfo/3": client,
                "fdinfo/4": client,
                "fdinfo/5": "pos: 0",
            },
        )
    (card,) = read_cards(root)
    assert card.held_bytes == GIB


def test_memory_nodes_are_told_apart(root: Path) -> None:
    for number, processors in enumerate(("0-1", "2-3", "")):
        size = 16_000_000 if processors else 0
        put(
            root / f"sys/devices/system/node/node{number}",
            {"cpulist": processors, "meminfo": f"Node {number} MemTotal: {size} kB"},
        )
    nodes = measure(root).nodes
    assert [(node.number, node.processors, node.memory_bytes) for node in nodes] == [
        (0, 2, 16_384_000_000),
        (1, 2, 16_384_000_000),
    ]


def test_an_apu_has_its_gtt_within_the_kernels_cap_and_not_its_512_mb(root: Path) -> None:
    apu = {
        "vendor": "0x1002",
        "device": "0x1638",
        "mem_info_vram_total": 512 * 2**20,
        "mem_info_vram_used": 100 * 2**20,
        "mem_info_gtt_total": 16 * GIB,
        "mem_info_gtt_used": 50 * 2**20,
    }
    gpu(root, "0000:04:00.0", "amdgpu", apu)
    put(root / "sys/devices/0000:04:00.2", {"vendor": "0x1022"})
    (card,) = read_cards(root)
    assert (card.backend, card.kind) == ("vulkan", "shared")
    assert card.memory_bytes == 16.5 * GIB
    assert card.held_bytes == 150 * 2**20
    # A user may lower or raise the cap.
    put(root, {"sys/module/ttm/parameters/pages_limit": 8 * GIB // 4096})
    (capped,) = read_cards(root)
    assert capped.memory_bytes == 8.5 * GIB
    assert "the kernel's cap" in capped.memory_source


def test_an_amd_card_has_its_own_memory_and_the_bandwidth_of_its_clock(root: Path) -> None:
    files = {
        "vendor": "0x1002",
        "device": "0x744c",
        "mem_info_vram_total": 20 * GIB,
        "mem_info_vram_used": GIB,
        "mem_info_gtt_total": 16 * GIB,
        "max_link_speed": "16.0 GT/s PCIe",
        "max_link_width": 16,
    }
    gpu(root, "0000:03:00.0", "amdgpu", files)
    put(root / "sys/devices/0000:03:00.1", {"vendor": "0x1002"})
    put(
        root / "sys/class/kfd/kfd/topology/nodes/1",
        {
            "properties": "location_id 768",
            "mem_banks/0/properties": "width 320\nmem_clk_max 1249",
        },
    )
    (card,) = read_cards(root)
    assert (card.kind, card.memory_bytes, card.held_bytes) == ("dedicated", 20 * GIB, GIB)
    assert card.bandwidth
    # 800 GB/s is published for the RX 7900 XT.
    assert card.bandwidth.median == pytest.approx(799.4e9, rel=0.001)
    assert card.bus
    assert card.bus.median == pytest.approx(25.2e9, rel=0.01)


def test_intel_inside_and_beside_a_processor(root: Path) -> None:
    gpu(root, "0000:00:02.0", "i915", {"vendor": "0x8086", "device": "0x46a6"})
    bars = "0x0000 0x00ff 0x0\n0x4000000000 0x43ffffffff 0x14220c\n"
    arc = {"vendor": "0x8086", "device": "0x56a0", "resource": bars}
    gpu(root, "0000:03:00.0", "xe", arc, node=129)
    inside, beside = read_cards(root)
    assert (inside.kind, inside.memory_bytes) == ("shared", int(32_768_000_000 * 0.75))
    assert (beside.kind, beside.memory_bytes) == ("dedicated", 16 * GIB)


@pytest.mark.parametrize("driver", ["virtio_gpu", "vgem"])
def test_software_devices_are_no_cards(root: Path, driver: str) -> None:
    gpu(root, "0000:00:03.0", driver, {"vendor": "0x1af4"})
    assert list(read_cards(root)) == []


def test_files_that_say_nonsense_are_no_cards(root: Path) -> None:
    for number, vendor in enumerate(("0x1002", "0x8086")):
        files = {"vendor": vendor, "mem_info_vram_total": "many", "resource": "0x0 0x0 0x0"}
        gpu(root, f"0000:0{number + 1}:00.0", "x", files, node=128 + number)
    assert list(read_cards(root)) == []


class FakeNvml:
    """NVIDIA's library with a laptop's card."""

    NVML_CLOCK_MEM = 2

    class NVMLError(Exception):
        """As the library raises it."""

    class _Memory:
        total, used = 8 * GIB, 300 * 2**20

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._Memory

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return 8001

    def nvmlDeviceGetMemoryBusWidth(self, handle: int) -> int:
        return 128

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        return 8

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        raise self.NVMLError

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        raise self.NVMLError

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA GeForce RTX 4070 Laptop GPU"


@pytest.fixture
def nvidia(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    (root / "sys/bus/pci/drivers/nvidia/0000:01:00.0").mkdir(parents=True)
    monkeypatch.setattr("hearth.machine.nvidia.import_module", lambda name: FakeNvml())
    yield from read_cards(root)


def test_an_nvidia_card_by_its_own_library(nvidia: Card) -> None:
    assert (nvidia.backend, nvidia.kind, nvidia.memory_bytes) == ("cuda", "dedicated", 8 * GIB)
    assert nvidia.bandwidth
    # 256 GB/s is published for this card: 128 bits at 16 GT/s.
    assert nvidia.bandwidth.median == pytest.approx(256e9, rel=0.001)
    # What the driver does not tell stays unknown.
    assert nvidia.bus is None


def test_a_file_that_cannot_be_read_past_the_cache_is_no_figure(tmp_path: Path) -> None:
    assert measured._disk_rate(None) is None
    assert measured._disk_rate(tmp_path / "missing") is None


def test_what_is_measured_can_be_read_again() -> None:
    import yaml

    from hearth.plan.machine import as_plain

    found = measure()
    assert read_machine(yaml.safe_dump(as_plain(found)), "x") == found

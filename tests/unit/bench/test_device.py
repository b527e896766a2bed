"""A device is what its driver calls it: a program on the processor is not a card."""

from __future__ import annotations

import pytest

from hearth.bench.accelerator import GPU_PROVEN, NOT_MEASURED, SOFTWARE, Proof, on, proof_text
from hearth.clients.llm import Device, devices

HEAD = 'time=2026-11-21T12:49:09Z level=INFO source=types.go:50 msg="inference compute"'
CPU = f'{HEAD} id=cpu library=cpu compute="" name=cpu description=cpu driver="" total="23.5 GiB"'
CARD = (
    f"{HEAD} id=0 filter_id=0 library=Vulkan compute=0.0 name=Vulkan0 "
    'description="AMD Radeon 780M (RADV PHOENIX)" total="16.0 GiB"'
)
MESA = CARD.replace("AMD Radeon 780M (RADV PHOENIX)", "llvmpipe (LLVM 21.1.8, 256 bits)")


def test_each_line_of_the_journal_is_one_device() -> None:
    assert devices(["starting", CPU, "served"]) == [Device("cpu", "cpu", "cpu")]
    assert [device.number for device in devices([CARD, MESA])] == ["Vulkan0", "Vulkan0"]
    assert devices(["inference compute"]) == [Device("", "", "")]
    assert devices([]) == []


@pytest.mark.parametrize(
    ("line", "processor", "software", "text"),
    [
        (CPU, True, False, "the processor"),
        (CARD, False, False, "Vulkan0: AMD Radeon 780M (RADV PHOENIX), by Vulkan"),
        (MESA, False, True, "Vulkan0: llvmpipe (LLVM 21.1.8, 256 bits), a software device, no GPU"),
    ],
)
def test_mesas_software_is_known_by_its_name(
    line: str, processor: bool, software: bool, text: str
) -> None:
    (device,) = devices([line])
    assert (device.processor, device.software, device.text) == (processor, software, text)


def test_software_is_not_a_gpu_at_any_speed() -> None:
    fast = Proof("m", GPU_PROVEN, "reads at least 3.0 times as fast as on the CPU", ratio=3.0)
    proof = on(fast, devices([MESA]))
    assert proof.verdict == SOFTWARE
    assert "llvmpipe" in proof.reason
    assert "software" in proof_text(proof).plain
    assert "gpu proven" not in proof_text(proof).plain
    assert on(Proof("m", NOT_MEASURED, "too small"), devices([MESA])).verdict == SOFTWARE


def test_a_card_is_judged_by_its_speed_and_named() -> None:
    fast = Proof("m", GPU_PROVEN, "", ratio=3.0)
    assert on(fast, devices([CARD])).verdict == GPU_PROVEN
    # Beside a card the software device is what Ollama does not take.
    assert on(fast, devices([CARD, MESA])).verdict == GPU_PROVEN
    assert on(fast, []) == fast
    assert on(fast, devices([CARD])).devices == (
        "Vulkan0: AMD Radeon 780M (RADV PHOENIX), by Vulkan",
    )

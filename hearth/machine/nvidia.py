"""Figures of NVIDIA's cards from the driver's own library, NVML, as Prometheus reads them."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hearth.machine.facts import text_of

# A card's bus address is a link here once the driver has it.
_DRIVER = "sys/bus/pci/drivers/nvidia"
_ASLEEP = "suspended"
# Each figure with its meaning, and how it is read of a card.
_FIGURES: dict[str, tuple[str, Callable[[Any, Any], float]]] = {
    "nvidia_memory_used_bytes": (
        "Memory of the card in use.",
        lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).used,
    ),
    "nvidia_memory_bytes": (
        "Memory of the card.",
        lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).total,
    ),
    "nvidia_busy_ratio": (
        "Share of the last moments in which the card computed.",
        lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100,
    ),
    "nvidia_temperature_celsius": (
        "Temperature of the card.",
        lambda nvml, card: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
    ),
    "nvidia_power_watts": (
        "Power that the card draws.",
        lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card) / 1000,
    ),
}


def lines(root: Path = Path("/")) -> list[str]:
    """Return the figures of all cards; none without a card, or while all cards sleep.

    Reading a sleeping card would wake it.
    """
    cards = (root / _DRIVER).glob("*:*:*/power/runtime_status")
    if not any(text_of(status) != _ASLEEP for status in cards):
        return []
    # Here, since few machines have a card.
    nvml = import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        # The driver does not work; `hearth doctor` says why.
        return []
    try:
        return list(_lines(nvml))
    finally:
        nvml.nvmlShutdown()


def _lines(nvml: Any) -> Iterator[str]:
    cards = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
    for name, (meaning, read) in _FIGURES.items():
        yield from (f"# HELP {name} {meaning}", f"# TYPE {name} gauge")
        for number, card in enumerate(cards):
            try:
                yield f'{name}{{card="{number}"}} {float(read(nvml, card))!r}'
            except nvml.NVMLError:
                # Some cards have no sensor for it.
                continue

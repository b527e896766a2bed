"""Figures of NVIDIA's cards from the driver's own library, NVML, as Prometheus reads them."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from hearth.machine.facts import text_of

# A card's bus address is a link here once the driver has it.
DRIVER = "sys/bus/pci/drivers/nvidia"
_ASLEEP = "suspended"
POWER, MEMORY_USED = "nvidia_power_watts", "nvidia_memory_used_bytes"
# The driver's bits of what slows a card down, the worst first.
_THROTTLES = (
    (0x08 | 0x20 | 0x40, "is too hot, so its driver slows it down"),
    (0x80, "gets too little power, so its driver slows it down"),
    (0x04, "is at the limit of its power"),
)
T = TypeVar("T")
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
    return _opened(root, lambda nvml: list(_lines(nvml))) or []


def readings(figure: str, root: Path = Path("/")) -> list[float | None]:
    """Return one figure of each card, None where a card has none; empty as `lines` is."""
    _, read = _FIGURES[figure]
    return _opened(root, lambda nvml: [_read(nvml, card, read) for card in handles(nvml)]) or []


def power_sensors(root: Path = Path("/")) -> dict[str, Callable[[], float | None]]:
    """Return what reads the watts of each card that has a sensor for it."""

    def sensor(number: int) -> Callable[[], float | None]:
        def read() -> float | None:
            found = readings(POWER, root)
            return found[number] if number < len(found) else None

        return read

    there = enumerate(readings(POWER, root))
    return {f"card (NVIDIA {number})": sensor(number) for number, watts in there if watts}


def throttle_reason(root: Path = Path("/")) -> str:
    """Return why the driver slows a card down now; empty where it does not."""

    def reason(nvml: Any) -> str:
        for number, card in enumerate(handles(nvml)):
            held = _read(nvml, card, lambda nvml, card: _clocks(nvml)(card))
            for bits, why in _THROTTLES:
                if held and int(held) & bits:
                    return f"NVIDIA {number} {why}"
        return ""

    return _opened(root, reason) or ""


def _clocks(nvml: Any) -> Callable[[Any], int]:
    # Newer libraries have another name for it.
    new, old = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    found: Callable[[Any], int] = getattr(nvml, new, None) or getattr(nvml, old)
    return found


def _opened(root: Path, use: Callable[[Any], T]) -> T | None:
    """Return what is read of the driver's library; None without an awake card or its driver."""
    cards = (root / DRIVER).glob("*:*:*/power/runtime_status")
    if not any(text_of(status) != _ASLEEP for status in cards):
        return None
    return with_library(use)


def with_library(use: Callable[[Any], T]) -> T | None:
    """Return what is read of the driver's library, also of cards that sleep; None without it."""
    # Here, since few machines have a card.
    nvml = import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        # The driver does not work; `hearth doctor` says why.
        return None
    try:
        return use(nvml)
    finally:
        nvml.nvmlShutdown()


def handles(nvml: Any) -> list[Any]:
    """Return the library's handle of each card."""
    return [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]


def _read(nvml: Any, card: Any, read: Callable[[Any, Any], float]) -> float | None:
    try:
        return float(read(nvml, card))
    except nvml.NVMLError:
        # Some cards have no sensor for it.
        return None


def _lines(nvml: Any) -> Iterator[str]:
    cards = handles(nvml)
    for name, (meaning, read) in _FIGURES.items():
        yield from (f"# HELP {name} {meaning}", f"# TYPE {name} gauge")
        for number, card in enumerate(cards):
            if (value := _read(nvml, card, read)) is not None:
                yield f'{name}{{card="{number}"}} {value!r}'

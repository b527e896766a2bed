"""How much memory of each card is in use now, whoever uses it."""

from pathlib import Path

from hearth.machine import nvidia
from hearth.machine.facts import text_of

_AMD = {"vram": "its own memory", "gtt": "the machine's memory"}


def memory_used(root: Path = Path("/")) -> dict[str, int]:
    """Return bytes in use by card, and by kind of memory where a card uses two."""
    used = nvidia.readings(nvidia.MEMORY_USED, root)
    found = {f"NVIDIA {n}": int(size) for n, size in enumerate(used) if size is not None}
    for card in sorted((root / "sys/class/drm").glob("card[0-9]*")):
        for kind, text in _AMD.items():
            size = text_of(card / f"device/mem_info_{kind}_used")
            if size.isdecimal():
                found[f"{card.name}, {text}"] = int(size)
    return found

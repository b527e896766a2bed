"""Reads which device Ollama found to compute on, by the name that it wrote into its own journal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Ollama writes one such line per device when it starts.
FOUND = "inference compute"
# Mesa's and Google's Vulkan drivers that compute on the processor.
SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "swiftshader", "softpipe")
_PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


@dataclass(frozen=True, slots=True)
class Device:
    """What Ollama computes on: its own number for it, the driver's name, the library it uses."""

    number: str
    name: str
    library: str

    @property
    def processor(self) -> bool:
        """Say whether it is plainly the processor."""
        return self.library.lower() == "cpu"

    @property
    def software(self) -> bool:
        """Say whether it claims to be a card and is a program on the processor."""
        return any(word in self.name.lower() for word in SOFTWARE_NAMES)

    @property
    def text(self) -> str:
        """The device as a person reads it."""
        if self.processor:
            return "the processor"
        kind = "a software device, no GPU" if self.software else f"by {self.library}"
        return f"{self.number}: {self.name}, {kind}"


def devices(journal: Iterable[str]) -> list[Device]:
    """Return the devices that the lines of one start of Ollama name, in their order."""
    found = []
    for line in journal:
        if FOUND in line:
            said = {key: value.strip('"') for key, value in _PAIR.findall(line)}
            name = said.get("description") or said.get("name", "")
            found.append(Device(said.get("name", ""), name, said.get("library", "")))
    return found

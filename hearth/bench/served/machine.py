"""What machine it was measured on."""

from __future__ import annotations

from dataclasses import dataclass

from hearth.machine import description as facts


@dataclass(frozen=True, slots=True)
class Machine:
    """What it was measured on; `load` is the load average before anything was asked."""

    name: str
    system: str
    kernel: str
    cpu: str
    cores: int
    memory_bytes: int
    load: float


def this_machine(load: float) -> Machine:
    """Return this machine, with its load before anything was asked."""
    seen = facts.machine()
    return Machine(
        name=seen.name,
        system=seen.system,
        kernel=seen.kernel,
        cpu=seen.cpu,
        cores=seen.cores,
        memory_bytes=seen.memory_bytes,
        load=round(load, 2),
    )

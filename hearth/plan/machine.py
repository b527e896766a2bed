"""A machine as the planner sees it: what was measured of it, and the devices that compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pydantic
import yaml
from pydantic import TypeAdapter

from hearth.plan import PlanError

Backend = Literal["cpu", "cuda", "rocm", "vulkan", "metal"]
MemoryKind = Literal["shared", "dedicated"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
GIB = 2**30
# The kernel keeps a little more or less of the memory with each version.
_SAME_MEMORY = 0.05
# Cards of one backend work together, and Ollama prefers them in this order.
_PREFERRED: tuple[Backend, ...] = ("cuda", "rocm", "metal", "vulkan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate per second with its spread; `source` says how it is known."""

    median: float
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNode:
    """The memory of one NUMA node; `bandwidth` in bytes per second."""

    number: int
    processors: int
    memory_bytes: int
    bandwidth: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One graphics processor; `memory_bytes` is what programs can get, and `memory_source` why.

    `bandwidth` and `bus` are in bytes per second, `matrix` in operations per second. Others hold
    `held_bytes` of the memory now.
    """

    name: str
    backend: Backend
    kind: MemoryKind
    memory_bytes: int
    memory_source: str
    held_bytes: int = 0
    bandwidth: Rate | None = None
    bus: Rate | None = None
    matrix: Rate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMachine:
    """What `hearth machine` writes: sizes in bytes, rates per second, `measured` an ISO time.

    Other programs hold `held_bytes` of the memory. `disk` reads large files, `matrix` multiplies
    float32 matrices on the processor. `notes` are for people.
    """

    name: str
    processor: str
    architecture: str
    cores: int
    features: tuple[str, ...] = ()
    memory_bytes: int
    held_bytes: int = 0
    nodes: tuple[MemoryNode, ...] = ()
    matrix: Rate | None = None
    disk: Rate | None = None
    cards: tuple[Card, ...] = ()
    is_virtual: bool = False
    notes: tuple[str, ...] = ()
    measured: str = ""

    @property
    def bandwidth(self) -> Rate | None:
        """The rate that one model gets on the processor: that of its fastest memory node.

        Threads on two nodes read each other's memory over a slower link.
        """
        known = [node.bandwidth for node in self.nodes if node.bandwidth]
        return max(known, key=lambda rate: rate.median, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a model computes: a processor, or the cards of one backend together.

    `memory_bytes` is all of its memory, of which others hold `held_bytes`. A shared memory is that
    of the machine, and models may have `limit_bytes` of it. Rates are per second, the bandwidth as
    makers publish it. What does not fit into a dedicated memory is computed on the host.
    """

    name: str
    backend: Backend
    kind: MemoryKind
    memory_bytes: float
    bandwidth_bytes_per_s: float
    held_bytes: float = 0
    limit_bytes: float = math.inf
    host_memory_bytes: float = 0
    host_bandwidth_bytes_per_s: float = 0
    bus_bytes_per_s: float = 0
    matrix_per_s: float = 0
    disk_bytes_per_s: float = 0
    cards: int = 1
    is_estimated: bool = False


def read_machine(text: str, name: str) -> MeasuredMachine:
    """Return the machine that `hearth machine` wrote; `name` is the file's, for the error.

    Raises:
        PlanError: the text is not such a machine.
    """
    try:
        machine = TypeAdapter(MeasuredMachine).validate_python(yaml.safe_load(text), strict=False)
    except (yaml.YAMLError, RecursionError):
        raise PlanError(f"{name}: not YAML: write it with `hearth machine > {name}`") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise PlanError(
            f"{name}: {where}: {first['msg']}: write it with `hearth machine > {name}`"
        ) from None
    if problem := _nonsense(machine):
        raise PlanError(f"{name}: {problem}: measure again with `hearth machine > {name}`")
    return machine


def other_machine(machine: MeasuredMachine, memory_bytes: int, has_card: bool) -> str:
    """Return what has changed since a machine was measured, in words; empty where nothing has."""
    if abs(memory_bytes / machine.memory_bytes - 1) > _SAME_MEMORY:
        was, now = (size / GIB for size in (machine.memory_bytes, memory_bytes))
        return f"{was:.0f} GiB of memory then, {now:.0f} GiB now"
    if has_card != bool(machine.cards):
        return (
            "a graphics processor now, none then" if has_card else "its graphics processor is gone"
        )
    return ""


def as_plain(value: Any) -> Any:
    """Return a machine, or another value of the planner, as JSON data."""
    return TypeAdapter(type(value)).dump_python(value, mode="json")


def _nonsense(machine: MeasuredMachine) -> str:
    """Return what cannot be true of a machine; empty where nothing is wrong."""
    if machine.memory_bytes <= 0:
        return f"memory_bytes is {machine.memory_bytes}, and no machine works without memory"
    if machine.cores <= 0:
        return f"cores is {machine.cores}"
    for card in machine.cards:
        if card.memory_bytes < 0 or card.held_bytes < 0:
            return f"{card.name} has a negative size"
    for what, rate in _rates(machine):
        if not all(map(math.isfinite, (rate.median, rate.low, rate.high))) or rate.median <= 0:
            return f"{what} is {rate.median:g} per second"
    return ""


def _rates(machine: MeasuredMachine) -> Iterator[tuple[str, Rate]]:
    named: Mapping[str, Rate | None] = {
        "matrix": machine.matrix,
        "disk": machine.disk,
        **{f"the bandwidth of node {node.number}": node.bandwidth for node in machine.nodes},
        **{f"the bandwidth of {card.name}": card.bandwidth for card in machine.cards},
        **{f"the bus of {card.name}": card.bus for card in machine.cards},
    }
    yield from ((what, rate) for what, rate in named.items() if rate)


# The part of the published bandwidth that a copy by all processors reaches.
COPY_SHARE = 0.8
# A machine that hides its memory's speed; two channels of DDR4, which most small machines have.
ASSUMED_BANDWIDTH = 40e9
# By backend, where a driver does not tell a card's memory clock: the slowest cards in use.
ASSUMED_CARD_BANDWIDTH = 250e9


def places(machine: MeasuredMachine) -> list[Place]:
    """Return where models can compute on this machine, the preferred place first.

    The processor is always the last.
    """
    cpu = _processor(machine)
    found = []
    for backend in _PREFERRED:
        for kind in ("dedicated", "shared"):
            cards = [c for c in machine.cards if (c.backend, c.kind) == (backend, kind)]
            if cards := [card for card in cards if card.memory_bytes > 0]:
                found.append(_together(cards, cpu))
    # An integrated GPU beside a card is left to the desktop.
    return [*sorted(found, key=lambda place: place.kind), cpu]


def _processor(machine: MeasuredMachine) -> Place:
    rate = machine.bandwidth
    return Place(
        name="processor",
        backend="cpu",
        kind="shared",
        memory_bytes=machine.memory_bytes,
        held_bytes=machine.held_bytes,
        bandwidth_bytes_per_s=rate.median / COPY_SHARE if rate else ASSUMED_BANDWIDTH,
        matrix_per_s=machine.matrix.median if machine.matrix else 0,
        disk_bytes_per_s=machine.disk.median if machine.disk else 0,
        is_estimated=rate is None,
    )


def _together(cards: list[Card], cpu: Place) -> Place:
    """Return the place of cards that hold a model's layers in turns."""
    first = cards[0]
    rates = [
        card.bandwidth.median
        if card.bandwidth
        else (cpu.bandwidth_bytes_per_s if card.kind == "shared" else ASSUMED_CARD_BANDWIDTH)
        for card in cards
    ]
    memory: float = sum(card.memory_bytes for card in cards)
    seconds = sum(card.memory_bytes / rate for card, rate in zip(cards, rates, strict=True))
    place = replace(
        cpu,
        name=" + ".join(card.name for card in cards),
        backend=first.backend,
        kind=first.kind,
        memory_bytes=memory,
        held_bytes=sum(card.held_bytes for card in cards),
        bandwidth_bytes_per_s=memory / seconds,
        matrix_per_s=min(card.matrix.median if card.matrix else 0 for card in cards),
        cards=len(cards),
        is_estimated=any(card.bandwidth is None for card in cards)
        and (first.kind == "dedicated" or cpu.is_estimated),
    )
    if first.kind == "shared":
        return replace(
            place,
            memory_bytes=cpu.memory_bytes,
            held_bytes=cpu.held_bytes,
            limit_bytes=min(memory, cpu.memory_bytes),
        )
    buses = [card.bus.median for card in cards if card.bus]
    return replace(
        place,
        host_memory_bytes=cpu.memory_bytes - cpu.held_bytes,
        host_bandwidth_bytes_per_s=cpu.bandwidth_bytes_per_s,
        bus_bytes_per_s=min(buses, default=0),
    )

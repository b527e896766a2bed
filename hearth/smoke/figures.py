"""Figures of a receipt: what was measured, how often, and the middle and the tail of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hearth.clients.stats import Spread, spread


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity; `p95` is the value that 95 of 100 do not exceed."""

    name: str
    unit: str
    n: int
    median: float
    p95: float
    note: str = ""


def summarise(name: str, unit: str, values: Sequence[float], note: str = "") -> Figure:
    """Return the figure of `values`, at least one."""
    found = spread(values)
    if found is None:
        raise ValueError(f"{name}: nothing was measured, so there is no figure")
    return of_spread(name, unit, found, note)


def of_spread(name: str, unit: str, found: Spread, note: str = "") -> Figure:
    """Return the figure of what a benchmark summed up already."""
    return Figure(name, unit, found.n, found.median, found.p95, note)


@dataclass(slots=True)
class Notes:
    """What the tests of one run write down for the receipt."""

    figures: list[Figure] = field(default_factory=list)
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    accelerator: dict[str, object] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    drill: dict[str, Any] = field(default_factory=dict)

    def remark(self, text: str) -> None:
        """Add what is no failure, but what a person should know: one line."""
        self.remarks.append(text)

    def figure(self, name: str, unit: str, values: Sequence[float], note: str = "") -> None:
        """Add one figure."""
        self.figures.append(summarise(name, unit, values, note))

    def sample(self, name: str, unit: str, value: float) -> None:
        """Add one value to a figure that several tests measure together."""
        self.samples.setdefault((name, unit), []).append(value)

    def as_event(self) -> dict[str, object]:
        """Return everything as plain data; figures of several tests come last."""
        shared = [summarise(name, unit, values) for (name, unit), values in self.samples.items()]
        return {
            "figures": [asdict(figure) for figure in (*self.figures, *shared)],
            "versions": self.versions,
            "accelerator": self.accelerator,
            "remarks": self.remarks,
            "drill": self.drill,
        }

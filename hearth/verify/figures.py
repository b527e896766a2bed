"""Figures of a receipt: what was measured, how often, and the middle and the tail of it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


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
    """Return the figure of `values`, at least one.

    With few values the 95th percentile is the largest: nothing is interpolated that nobody saw.
    """
    ordered = sorted(values)
    rank = max(0, -(-95 * len(ordered) // 100) - 1)
    return Figure(name, unit, len(ordered), statistics.median(ordered), ordered[rank], note)


@dataclass(slots=True)
class Notes:
    """What the tests of one run write down for the receipt."""

    figures: list[Figure] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    accelerator: dict[str, object] = field(default_factory=dict)

    def figure(self, name: str, unit: str, values: Sequence[float], note: str = "") -> None:
        """Add one figure."""
        self.figures.append(summarise(name, unit, values, note))

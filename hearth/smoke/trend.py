"""What is usual on one machine, and which differences between receipts are more than noise.

The rule. Run to run, the medians of a figure on one machine differ by S: 1.4826 times their median
absolute deviation, over the last good receipts of this machine with equal conditions. Their band is
their median ± the greatest of (4 + 40/n)·S, three standard errors of a median inside a run, 15 %
of the median, and what a person notices. The factor is larger for few receipts (n), which do not
know S well. A figure is worse if it is outside its band, on the bad side. Two receipts are compared
in the same way, with √2·S since both vary. For fewer than five receipts, three times 15 % of the
median stands for the first of these.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from hearth.smoke.receipt import Figure, MeasuredMachine, Receipt, Verdict, number

TREND_FORM = "hearth-trend/1"
FEWEST, WINDOW, POINTS = 5, 20, 60
# Fewer values in one run say little about that run.
_FEWEST_VALUES = 3
_ASSUMED, _LEAST, _ERRORS = 0.15, 0.15, 3.0
# Of values that vary by S, the median of n has an error of 1.2533 S/√n, and the p95 is 1.645 S up.
_MEDIAN_ERROR = 1.2533 / 1.645
# Kernels differ in how much of the memory they keep for themselves.
_SAME_MEMORY = 0.03
_DRIVER = re.compile(r" \([^)]*\)$")

Judgement = Literal["worse", "better", "usual", "unknown"]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Whether more of it is worse (1) or better (-1), and the least that a person notices."""

    worse: int
    noticed: float


# Figures of other units, such as days of a certificate, are neither good nor bad.
_UNITS = {
    "ms": _Unit(1, 20.0),
    "s": _Unit(1, 0.02),
    "": _Unit(1, 0.05),
    "%": _Unit(1, 1.0),
    "tokens/s": _Unit(-1, 0.0),
    "GB/s": _Unit(-1, 0.0),
}


@dataclass(frozen=True, slots=True)
class Band:
    """What is usual here: the median of `n` receipts, and from where to where."""

    n: int
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """One figure of one receipt, whose run was `good` if nothing failed and nothing was pending."""

    made: str
    median: float
    p95: float
    n: int
    good: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """One figure over the receipts of one machine, oldest first; the last point is judged."""

    name: str
    unit: str
    conditions: str
    points: Sequence[Point]
    band: Band | None
    judgement: Judgement

    @property
    def evidence(self) -> str:
        """Both numbers in one line."""
        last, band = self.points[-1], self.band
        if band is None:
            return f"{number(last.median)} {self.unit}".strip()
        now, usual = (f"{number(one.median)} {self.unit}".strip() for one in (last, band))
        limits = f"{number(band.low)} to {number(band.high)}"
        return f"{now} now (n={last.n}); usual here is {usual}, {limits} in {band.n} receipts"

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {**asdict(self), "evidence": self.evidence}


def hardware_differences(one: MeasuredMachine, other: MeasuredMachine) -> list[str]:
    """Return a line for each part of the hardware that differs."""
    pairs = {
        "name": (one.name, other.name),
        "processor": (one.cpu, other.cpu),
        "cores": (one.cores, other.cores),
        "graphics": (_cards(one), _cards(other)),
    }
    found = [f"{what}: {a} | {b}" for what, (a, b) in pairs.items() if a != b]
    sizes = one.memory_bytes, other.memory_bytes
    if abs(sizes[0] - sizes[1]) > _SAME_MEMORY * max(sizes):
        a, b = (f"{size / 2**30:.1f} GiB" for size in sizes)
        found.append(f"memory: {a} | {b}")
    return found


def _cards(machine: MeasuredMachine) -> str:
    # A driver is what changes on a machine; its card stays.
    return ", ".join(_DRIVER.sub("", card) for card in machine.gpus) or "none"


def trends(receipts: Sequence[Receipt]) -> list[Trend]:
    """Return each figure of the last receipt over all of its machine, oldest first."""
    if not receipts:
        return []
    *earlier, last = sorted(receipts, key=_moment)
    here = [one for one in earlier if not hardware_differences(one.machine, last.machine)]
    found = []
    for figure in last.all_figures:
        before = [(one, same) for one in here if (same := _same(one, figure))]
        band = band_of([same for one, same in before if _is_typical(one)][-WINDOW:])
        points = [_point(one, same) for one, same in [*before, (last, figure)][-POINTS:]]
        judgement = "unknown" if _is_pending(last) else _judge(figure, band)
        found.append(Trend(*figure.series, points, band, judgement))
    return found


def _is_typical(receipt: Receipt) -> bool:
    return receipt.good and not _is_pending(receipt)


def _is_pending(receipt: Receipt) -> bool:
    # A download slows everything down.
    return "pending" in receipt.counts


def _moment(receipt: Receipt) -> float:
    return datetime.fromisoformat(receipt.made).timestamp()


def _same(receipt: Receipt, figure: Figure) -> Figure | None:
    return next((one for one in receipt.all_figures if one.series == figure.series), None)


def _point(receipt: Receipt, figure: Figure) -> Point:
    return Point(receipt.made, figure.median, figure.p95, figure.n, _is_typical(receipt))


def band_of(figures: Sequence[Figure]) -> Band | None:
    """Return what is usual of one figure, by the rule above; None for fewer than five."""
    unit = _UNITS.get(figures[0].unit) if figures else None
    if unit is None or len(figures) < FEWEST:
        return None
    middle = statistics.median(one.median for one in figures)
    error = statistics.median(_error(one) for one in figures)
    half = max(_between(figures), _ERRORS * error, _LEAST * abs(middle), unit.noticed)
    return Band(len(figures), middle, max(0.0, middle - half), middle + half)


def _between(figures: Sequence[Figure]) -> float:
    """Return how far a run may be from the median of these for chance alone."""
    medians = [one.median for one in figures]
    middle = statistics.median(medians)
    spread = 1.4826 * statistics.median(abs(one - middle) for one in medians)
    return (4 + 40 / len(figures)) * spread


def _error(figure: Figure) -> float:
    """Return the standard error of a median inside its run."""
    return _MEDIAN_ERROR * max(0.0, figure.p95 - figure.median) / math.sqrt(figure.n)


def _judge(figure: Figure, band: Band | None) -> Judgement:
    if band is None or figure.n < _FEWEST_VALUES:
        return "unknown"
    if band.low <= figure.median <= band.high:
        return "usual"
    return _side(figure.unit, figure.median - band.median)


def _side(unit: str, difference: float) -> Judgement:
    return "worse" if difference * _UNITS[unit].worse > 0 else "better"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One figure of two receipts; a difference up to `margin` may be chance.

    `why` explains a judgement that is unknown.
    """

    name: str
    unit: str
    a: Figure | None
    b: Figure | None
    judgement: Judgement
    margin: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReceiptDifference:
    """Two receipts beside each other; pairs are (before, after), and None is missing."""

    a: str
    b: str
    warnings: Sequence[str]
    figures: Sequence[FigureChange]
    versions: Mapping[str, tuple[str | None, str | None]]
    checks: Mapping[str, tuple[str | None, str | None]]

    @property
    def worse(self) -> list[FigureChange]:
        """The figures that became worse beyond the noise."""
        return [one for one in self.figures if one.judgement == "worse"]

    @property
    def broken(self) -> list[str]:
        """The checks that fail, and did not fail before."""
        return [name for name, (_, after) in self.checks.items() if after == "failed"]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {"worse": len(self.worse), "broken": self.broken, **asdict(self)}


def difference(a: Receipt, b: Receipt, kept: Sequence[Receipt] = ()) -> ReceiptDifference:
    """Compare two receipts; `kept` are those from which the noise of their machine is known."""
    hardware = hardware_differences(a.machine, b.machine)
    warnings = [f"not comparable, other hardware: {line}" for line in hardware]
    warnings += [
        f"{one.made}: its run was {one.summary}, so its figures may not be typical"
        for one in (a, b)
        if not _is_typical(one)
    ]
    here = [one for one in kept if not hardware_differences(one.machine, b.machine)]
    history = [one for one in here if _is_typical(one)][-WINDOW:]
    figures = list[FigureChange]()
    for pair in _pairs(a.all_figures, b.all_figures):
        figures.append(_change(*pair, history, "other hardware" if hardware else ""))
    other = [one.name for one in figures if one.why.startswith("other conditions")]
    if other:
        more = f" and {len(other) - 3} more" if len(other) > 3 else ""
        names = "; ".join(other[:3])
        warnings.append(f"not comparable, other models or test sizes: {names}{more}")
    versions, checks = (_differing(of(a), of(b)) for of in (_versions, _checks))
    return ReceiptDifference(a.made, b.made, warnings, figures, versions, checks)


def _pairs(a: Sequence[Figure], b: Sequence[Figure]) -> list[tuple[Figure | None, Figure | None]]:
    before = {(one.name, one.unit): one for one in a}
    after = {(one.name, one.unit): one for one in b}
    return [(before.get(key), after.get(key)) for key in {**after, **before}]


def _change(
    a: Figure | None, b: Figure | None, history: Sequence[Receipt], why: str
) -> FigureChange:
    known = b or a
    assert known is not None  # noqa: S101 - one of both is there
    if a is None or b is None:
        return FigureChange(
            known.name, known.unit, a, b, "unknown", why=f"only in {'A' if a else 'B'}"
        )
    if a.series != b.series:
        why = f"other conditions: {a.conditions or 'not noted'} | {b.conditions or 'not noted'}"
    elif b.unit not in _UNITS:
        why = "neither good nor bad"
    if why:
        return FigureChange(b.name, b.unit, a, b, "unknown", why=why)
    before = [same for one in history if (same := _same(one, b))]
    if len(before) < FEWEST and min(a.n, b.n) < _FEWEST_VALUES:
        return FigureChange(b.name, b.unit, a, b, "unknown", why="measured too seldom to tell")
    margin = _margin(a, b, before)
    change = b.median - a.median
    judgement: Judgement = "usual" if abs(change) <= margin else _side(b.unit, change)
    return FigureChange(b.name, b.unit, a, b, judgement, margin)


def _margin(a: Figure, b: Figure, before: Sequence[Figure]) -> float:
    between = _between(before) if len(before) >= FEWEST else _ERRORS * _ASSUMED * abs(a.median)
    inside = _ERRORS * math.hypot(_error(a), _error(b))
    return max(math.sqrt(2) * between, inside, _LEAST * abs(a.median), _UNITS[b.unit].noticed)


def _versions(receipt: Receipt) -> dict[str, str]:
    machine = receipt.machine
    named = {"Hearth": receipt.hearth, "system": machine.system, "kernel": machine.kernel}
    drivers = {f"driver {name}": text for name, text in machine.drivers.items()}
    digests = {f"digest of {name}": text for name, text in receipt.digests.items()}
    return {**named, **drivers, **receipt.versions, **digests}


def _checks(receipt: Receipt) -> dict[str, str]:
    return {_check_name(verdict): verdict.outcome for verdict in receipt.verdicts}


def _check_name(verdict: Verdict) -> str:
    return f"{verdict.promise}: {verdict.about}" if verdict.about else verdict.promise


def _differing(
    a: Mapping[str, str], b: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    names = {**b, **a}
    return {name: (a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)}

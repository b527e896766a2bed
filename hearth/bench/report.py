"""The data of all reports: figures of samples, ratios with targets, health, and the machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeVar

from hearth.clients.stats import Spread, spread
from hearth.machine import facts

Verdict = Literal["reached", "not reached", "not measured"]
# A 99th percentile of fewer values is meaningless.
_MIN_HEALTH_CHECKS = 20


class AnySample(Protocol):
    """The result of one request."""

    @property
    def error(self) -> str:
        """The reason for its failure, empty for none."""
        ...


@dataclass(frozen=True, slots=True)
class BenchMachine(facts.MachineInfo):
    """The machine that ran it; `load` is the load average before the first request."""

    load: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure with the target that a server should reach; `reason` says why it has no value."""

    what: str
    server: str
    unit: str
    target: float
    value: float | None
    n: int
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Health:
    """How long `GET /health` took while the server worked; `failed` counts missing answers."""

    n: int
    failed: int
    median_ms: float
    p99_ms: float
    worst_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """All answers of one kind, with the spread of each measured field of those that succeeded.

    `totals` has the sums of some of them.
    """

    case: Any
    calls: int
    failed: int
    errors: tuple[str, ...]
    spreads: dict[str, Spread]
    totals: dict[str, float]

    def __getitem__(self, name: str) -> Spread | None:
        """Return the spread of a field, None without values."""
        return self.spreads.get(name)


@dataclass(frozen=True, slots=True)
class BaselineFigures:
    """The times of the baseline, by what was computed, in turns with the server's requests.

    `how` describes its options; `reason` is why there is no time.
    """

    times_ms: dict[str, Spread]
    how: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """One server: the texts of its status, and its results.

    `memory_bytes` is the most that its /status reported, also while it worked; `stopped` is the
    reason for giving it up.
    """

    name: str
    url: str
    model: str
    threads: int | None
    memory_bytes: int | None
    status: dict[str, str]
    figures: tuple[Figures, ...]
    health: Health | None
    stopped: str

    @property
    def failed(self) -> bool:
        """Whether anything was not answered, or ended early."""
        return bool(self.stopped) or any(one.failed for one in self.figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of one run; the ratios of the first server come first.

    `stopped` is the reason for an early end.
    """

    form: str
    started: str
    seconds: float
    quick: bool
    runs: int
    machine: BenchMachine
    servers: tuple[ServerReport, ...]
    baseline: BaselineFigures
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every call was answered and the first server missed no target."""
        first = self.servers[0]
        return not (self.stopped or first.failed or missed(self.ratios, first.name))


SampleT = TypeVar("SampleT", bound=AnySample)


def good(samples: Sequence[SampleT]) -> list[SampleT]:
    """Return the samples that succeeded."""
    return [sample for sample in samples if not sample.error]


def values(samples: Sequence[AnySample], name: str) -> list[float]:
    """Return a field of samples, where they have it."""
    return [float(value) for one in samples if (value := getattr(one, name)) is not None]


def figures_of(
    case: Any, samples: Sequence[AnySample], fields: Sequence[str], totals: Sequence[str] = ()
) -> Figures:
    """Return the figures of samples; each error is named once."""
    answered = good(samples)
    return Figures(
        case=case,
        calls=len(samples),
        failed=len(samples) - len(answered),
        errors=tuple(dict.fromkeys(sample.error for sample in samples if sample.error)),
        spreads={name: each for name in fields if (each := spread(values(answered, name)))},
        totals={name: sum(values(answered, name)) for name in totals},
    )


def this_machine(load: float) -> BenchMachine:
    """Return this machine, with its load before the first request."""
    return BenchMachine(**asdict(facts.machine()), load=round(load, 2))


def health_of(seconds: Sequence[float | None]) -> Health | None:
    """Return the times of health checks, of which None had no answer; None without any."""
    if not seconds:
        return None
    answered = sorted(s * 1000 for s in seconds if s is not None)
    if not answered:
        return Health(0, len(seconds), 0.0, 0.0, 0.0)
    p99 = answered[-(-99 * len(answered) // 100) - 1]
    failed = len(seconds) - len(answered)
    return Health(len(answered), failed, statistics.median(answered), p99, answered[-1])


def ratio(
    server: str, what: str, unit: str, target: float, value: float | None, n: int, missing: str
) -> Ratio:
    """Return a ratio with its verdict; `missing` is the reason where there is no value."""
    verdict: Verdict = "not measured"
    if value is not None:
        verdict = "reached" if value <= target else "not reached"
    return Ratio(what, server, unit, target, value, n, verdict, missing if value is None else "")


def median_ratio(
    server: str, what: str, unit: str, target: float, values: Sequence[float], missing: str
) -> Ratio:
    """Return the ratio of the median of some values."""
    return ratio(server, what, unit, target, median(values), len(values), missing)


def health_ratio(server: str, what: str, seconds: Sequence[float | None]) -> Ratio:
    """Return the ratio of the health checks during the work."""
    health = health_of(seconds) or Health(0, 0, 0.0, 0.0, 0.0)
    if not health.failed:
        value = health.p99_ms if health.n >= _MIN_HEALTH_CHECKS else None
        return ratio(server, what, "ms", 50.0, value, health.n, f"only {health.n} answers arrived")
    reason = f"{health.failed} of {health.n + health.failed} health checks had no answer"
    return Ratio(what, server, "ms", 50.0, health.p99_ms, health.n, "not reached", reason)


def median(values: Sequence[float]) -> float | None:
    """Return the median, None without values."""
    return statistics.median(values) if values else None


def missed(ratios: Sequence[Ratio], server: str) -> bool:
    """Return whether a server missed a target."""
    return any(row.verdict == "not reached" for row in ratios if row.server == server)

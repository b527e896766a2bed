"""What all reports have in common: ratios with targets, health, the machine, and the schema."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from hearth.clients.stats import Spread, spread
from hearth.machine import description

Verdict = Literal["reached", "not reached", "not measured"]
# A 99th percentile of fewer values is meaningless.
_MIN_HEALTH_CHECKS = 20


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that ran it; `load` is the load average before the first request."""

    name: str
    system: str
    kernel: str
    cpu: str
    cores: int
    memory_bytes: int
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


def this_machine(load: float) -> Machine:
    """Return this machine, with its load before the first request."""
    seen = description.machine()
    return Machine(
        name=seen.name,
        system=seen.system,
        kernel=seen.kernel,
        cpu=seen.cpu,
        cores=seen.cores,
        memory_bytes=seen.memory_bytes,
        load=round(load, 2),
    )


def health_of(seconds: Sequence[float | None]) -> Health | None:
    """Return the times of health checks, of which None had no answer; None without any."""
    if not seconds:
        return None
    good = sorted(s * 1000 for s in seconds if s is not None)
    middle = spread(good)
    if middle is None:
        return Health(0, len(seconds), 0.0, 0.0, 0.0)
    rank = -(-99 * len(good) // 100) - 1
    return Health(len(good), len(seconds) - len(good), middle.median, good[rank], good[-1])


def ratio(
    server: str, what: str, unit: str, target: float, value: float | None, n: int, missing: str
) -> Ratio:
    """Return a ratio with its verdict; `missing` is the reason where there is no value."""
    verdict: Verdict = "not measured"
    if value is not None:
        verdict = "reached" if value <= target else "not reached"
    return Ratio(what, server, unit, target, value, n, verdict, missing if value is None else "")


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


def ms(seconds: Sequence[float | None]) -> Spread | None:
    """Return the spread of times in milliseconds."""
    return spread([s * 1000 for s in seconds if s is not None])


def missed(ratios: Sequence[Ratio], server: str) -> bool:
    """Return whether a server missed a target."""
    return any(row.verdict == "not reached" for row in ratios if row.server == server)


def schema_text(report: type, form: str) -> str:
    """Return the JSON schema of a report as committed; `python -m hearth.bench` writes it."""
    schema: dict[str, Any] = TypeAdapter(report).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": form}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"

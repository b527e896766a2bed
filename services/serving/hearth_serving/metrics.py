"""Figures for Prometheus and /status: counts and times, never a text, a voice or a client."""

import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.responses import Response
from starlette.types import Scope

OUTCOMES = ("done", "left", "failed", "refused", "busy", "late")
"""How a request or a WebSocket's turn ends, here and in /status.

`busy` is 429, `late` a deadline, `left` a client that disconnected.
"""
MEDIA_TYPE = "text/plain; version=0.0.4"
_RECENT = 500

M = TypeVar("M")


class Metrics:
    """A server's own registry: two servers in one process do not share it."""

    def __init__(self, namespace: str, requests: str) -> None:
        """Create every series, so that a counter that is 0 is there as well.

        `requests` is the help text of the counter of requests.
        """
        self.namespace, self.registry = namespace, own_registry()
        self._requests = Counter(
            f"{namespace}_requests", requests, ["outcome"], registry=self.registry
        )
        self._ended = dict.fromkeys(OUTCOMES, 0)
        for outcome in OUTCOMES:
            self._requests.labels(outcome)

    def ended(self, outcome: str) -> None:
        """Count one request."""
        self._requests.labels(outcome).inc()
        self._ended[outcome] += 1

    def watch(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value `read` returns at each scrape."""
        Gauge(f"{self.namespace}_{name}", meaning, registry=self.registry).set_function(read)

    def describe(self) -> dict[str, object]:
        """Return the part of the status that is counted here."""
        return {"requests": dict(self._ended)}

    def page(self) -> Response:
        """Return the response to Prometheus, in its text format."""
        return Response(page_of(self.registry), media_type=MEDIA_TYPE)


def own_registry() -> CollectorRegistry:
    """Return a registry with the usual figures of this process, such as its resident memory."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def page_of(registry: CollectorRegistry) -> bytes:
    """Return all figures in Prometheus's text format."""
    return generate_latest(registry)


def recent() -> deque[float]:
    """Return a ring buffer for the last 500 values."""
    return deque(maxlen=_RECENT)


def is_canary(scope: Scope) -> bool:
    """Return whether the house tests itself: such a request is in no figure.

    The reverse proxy removes this header, so no device can send it.
    """
    return (b"x-hearth-canary", b"1") in scope["headers"]


def recorder(metrics: M, scope: Scope) -> M:
    """Return where a request is recorded: for the house's own tests, in figures of no one."""
    return type(metrics)() if is_canary(scope) else metrics


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return the number of values, their median and the 95th percentile (nearest rank)."""
    ranked = sorted(values)
    if not ranked:
        return {"n": 0, "median": None, "p95": None}

    def at(share: float) -> float:
        return round(ranked[max(0, math.ceil(share * len(ranked)) - 1)], 4)

    return {"n": len(ranked), "median": at(0.5), "p95": at(0.95)}


def memory_bytes() -> int:
    """Return the resident memory of this process; 0 where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

"""What Prometheus reads of every server: counts and times, never a text, a voice or a client."""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.responses import Response

OUTCOMES = ("done", "left", "failed", "refused", "busy", "late")
"""How a request or a WebSocket's turn ends, here and in /status.

`busy` is 429, `late` a deadline, `left` a client that hung up.
"""


class Metrics:
    """A server's own registry: two servers in one process do not share it."""

    def __init__(self, namespace: str, requests: str) -> None:
        """Make every series, so that a counter that is 0 is there as well.

        `requests` says what is counted as one, for whoever reads the page.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.namespace, self.registry = namespace, CollectorRegistry()
        ProcessCollector(namespace=namespace, registry=self.registry)
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
        """Ask `read` for a value whenever somebody scrapes."""
        Gauge(f"{self.namespace}_{name}", meaning, registry=self.registry).set_function(read)

    def describe(self) -> dict[str, object]:
        """Return the part of the status that is counted here."""
        return {"requests": dict(self._ended)}

    def page(self) -> Response:
        """Answer Prometheus in its text format."""
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

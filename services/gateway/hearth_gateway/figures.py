"""Figures for Prometheus, under OpenTelemetry's names for generative models; never a text.

Every label is a name of the house's catalogue or `other`, so callers cannot add series.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter, Histogram

from hearth_gateway.events import has_token
from hearth_gateway.settings import GatewayConfig
from hearth_serving.metrics import own_registry, page_of

OTHER = "other"
# OpenTelemetry's bounds, with fewer below what a model can do, and more for a load into memory.
_FIRST_S = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 80)
_TOKEN_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)
_REQUEST_S = (0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84)
_MODELS = ["gen_ai_request_model", "gen_ai_response_model", "hearth_consumer"]
# How a request ends after the first token of its answer, and without one; together all outcomes.
_ANSWERED = ("done", "left", "failed", "late")
_UNANSWERED = ("left", "failed", "refused", "busy", "late")
# In a large answer of embeddings the usage stands at its start or its end, beside numbers only.
_EDGE_BYTES, _MOST = 1024, 10**12
_PROMPT_TOKENS = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,12})')


@dataclass(slots=True)
class Usage:
    """The tokens of one answer, as its server counts them.

    Without its word, because the answer broke off, `estimate` and `pieces` have to do.
    """

    input: int | None = None
    output: int | None = None
    pieces: int = 0
    estimate: Callable[[], int] = lambda: 0

    def read(self, event: Any) -> None:
        """Read one event of an answer."""
        if not isinstance(event, dict):
            return
        self.pieces += has_token(event)
        # The Responses interface and Anthropic's write it inside.
        for place in (event, event.get("response"), event.get("message")):
            found = place.get("usage") if isinstance(place, dict) else None
            if isinstance(found, dict):
                self.input = _count(found, "input_tokens", "prompt_tokens") or self.input
                self.output = _count(found, "output_tokens", "completion_tokens") or self.output

    def read_embeddings(self, body: bytes) -> None:
        """Read a whole answer of embeddings."""
        found = _PROMPT_TOKENS.search(body[-_EDGE_BYTES:]) or _PROMPT_TOKENS.search(
            body[:_EDGE_BYTES]
        )
        self.input = int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """One request that has ended.

    `member` is empty if none answered; `to_cloud` is true once a member outside the house was
    called. The times are in seconds, None where there was no such moment.
    """

    consumer: str
    name: str
    member: str
    outcome: str
    to_cloud: bool
    duration_s: float
    first_s: float | None = None
    usage: Usage | None = None


class Figures:
    """The gateway's own registry."""

    def __init__(self, config: GatewayConfig) -> None:
        """Create the series for what leaves the house: Prometheus sees no increase to a first 1."""
        self._names = frozenset(config.names)
        self._consumers = frozenset(consumer.name for consumer in config.consumers)
        self._config, self._registry = config, own_registry()
        self._first = self._times(
            "gen_ai_server_time_to_first_token_seconds",
            "From the request to the first token of its answer; thoughts count.",
            _FIRST_S,
        )
        self._token = self._times(
            "gen_ai_server_time_per_output_token_seconds",
            "For each token after the first, of answers that ended.",
            _TOKEN_S,
        )
        self._request = self._times(
            "gen_ai_server_request_duration_seconds",
            "From the request to the end of its answer, of answers that ended.",
            _REQUEST_S,
        )
        self._tokens = Counter(
            "gen_ai_client_token_usage",
            "Tokens read and written by models; hearth_cloud: by one outside the house.",
            [*_MODELS, "gen_ai_token_type", "hearth_cloud"],
            registry=self._registry,
        )
        self._requests = Counter(
            "hearth_gateway_requests",
            "Requests by outcome; hearth_cloud: a model outside the house was called.",
            [*_MODELS, "outcome", "hearth_cloud"],
            registry=self._registry,
        )
        self._create()

    def ended(self, request: EndedRequest) -> None:
        """Record one request."""
        models = (
            self._known(request.name),
            self._known(request.member) if request.member else "",
            request.consumer if request.consumer in self._consumers else OTHER,
        )
        self._requests.labels(*models, request.outcome, _word(request.to_cloud)).inc()
        done, usage = request.outcome == "done", request.usage
        if done and request.member:
            self._request.labels(*models).observe(request.duration_s)
        if usage is None or not request.member:
            return
        read = usage.estimate() if usage.input is None else usage.input
        written = usage.pieces if usage.output is None else usage.output
        cloud = _word(self._leaves(request.member))
        self._tokens.labels(*models, "input", cloud).inc(read)
        self._tokens.labels(*models, "output", cloud).inc(written)
        if request.first_s is None:
            return
        self._first.labels(*models).observe(request.first_s)
        if done and written > 1:
            each_s = (request.duration_s - request.first_s) / (written - 1)
            self._token.labels(*models).observe(each_s)

    def page(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        return page_of(self._registry)

    def _times(self, name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, _MODELS, buckets=buckets, registry=self._registry)

    def _create(self) -> None:
        for consumer in self._config.consumers:
            for name in consumer.names:
                members = self._config.names[name].members
                leaving = set(filter(self._leaves, members))
                # Where a member outside fails, one of the house answers, or none does.
                for member in (*members, "") if leaving else ():
                    models = (name, member, consumer.name)
                    for outcome in _ANSWERED if member else _UNANSWERED:
                        self._requests.labels(*models, outcome, "true")
                    for kind in ("input", "output") if member in leaving else ():
                        self._tokens.labels(*models, kind, "true")

    def _known(self, name: str) -> str:
        return name if name in self._names else OTHER

    def _leaves(self, member: str) -> bool:
        return member in self._names and self._config.names[member].info.leaves


def _count(usage: dict[str, Any], *names: str) -> int | None:
    found = (usage.get(name) for name in names)
    return next((count for count in found if isinstance(count, int) and 0 < count < _MOST), None)


def _word(value: bool) -> str:
    return "true" if value else "false"

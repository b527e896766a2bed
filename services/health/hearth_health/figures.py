"""Figures of the last hour, day and month, from Prometheus; pages never wait for it."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import httpx

WITHIN_S = 2.0
_AT_ONCE = 6
# Seconds in total, between the points of a chart, and until the figures are asked for again.
SPANS: Mapping[str, tuple[int, int, float]] = {
    "hour": (3600, 60, 20.0),
    "day": (86_400, 900, 120.0),
    "month": (30 * 86_400, 6 * 3600, 900.0),
}
_QUANTILES = {"median": 0.5, "p95": 0.95}
MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class Figure:
    """One histogram that people care about; with `inverse`, its reciprocal is shown."""

    name: str
    title: str
    unit: str
    metric: str
    inverse: bool = False


FIGURES: Sequence[Figure] = (
    Figure("ttfa", "Time to first audio", "ms", "kokoro_ttfa_seconds"),
    Figure("ttft", "Time to first token", "ms", "gen_ai_server_time_to_first_token_seconds"),
    Figure("stt", "End of speech to text", "ms", "whisper_final_latency_seconds"),
    Figure("rate", "Tokens per second", "/s", "gen_ai_server_time_per_output_token_seconds", True),
)
# From the end of speech to the first audio: the figure, its target and its limit in milliseconds.
TURN: Sequence[tuple[str, str, int, int]] = (
    ("stt", "Speech to text", 350, 500),
    ("ttft", "Language model, first token", 200, 400),
    ("ttfa", "Text to speech, first audio", 150, 250),
    ("", "Network and glue", 100, 150),
)
# A turn in which a step computes on the processor has the second limit.
TURN_TARGET_MS, TURN_LIMIT_MS, TURN_PROCESSOR_LIMIT_MS = 800, 1100, 1500


@dataclass(frozen=True, slots=True)
class Numbers:
    """What Prometheus said last: `values` by figure, span and quantile; None where none exist.

    `stages` are seconds per stage of speech. `late` are the spans that took too long; a `problem`
    says why there is nothing at all.
    """

    values: Mapping[tuple[str, str, str], float | None] = field(default_factory=dict)
    stages: Sequence[tuple[str, float]] = ()
    cloud: Sequence[Mapping[str, Any]] | None = None
    late: frozenset[str] = frozenset()
    problem: str = ""
    read: bool = False


class FiguresError(Exception):
    """One line for a person: why there are no figures."""


class Prometheus:
    """Prometheus' HTTP API, with one deadline for everything that is asked at once."""

    def __init__(self, url: str, client: httpx.AsyncClient | None = None) -> None:
        self._url = url
        # Plain HTTP inside the house: loading the authorities would cost 3 MB and 20 ms.
        self._client = client or httpx.AsyncClient(
            trust_env=False,
            timeout=WITHIN_S,
            verify=False,  # noqa: S501
        )
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def ask(self, path: str, queries: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the result of each query.

        Raises:
            FiguresError: there is no Prometheus, or it did not answer all of them in time.
        """
        if not self._url:
            raise FiguresError("this house has no Prometheus")
        try:
            async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(path, query)) for query in queries]
        except TimeoutError:
            raise FiguresError(f"Prometheus did not answer in {WITHIN_S:g} s") from None
        except ExceptionGroup as errors:
            why = _reason(errors.exceptions[0])
            raise FiguresError(f"Prometheus does not answer ({why})") from None
        return [task.result() for task in tasks]

    async def _one(self, path: str, query: Mapping[str, Any]) -> Any:
        async with self._turn:
            answer = await self._client.get(f"{self._url}/api/v1/{path}", params=dict(query))
        found = answer.json()
        if found["status"] != "success":
            raise ValueError(str(found.get("error"))[:200])
        return found["data"]["result"]


def _reason(error: BaseException) -> str:
    if isinstance(error, ValueError) and not isinstance(error, UnicodeError) and error.args:
        return str(error)[:200]
    return type(error).__name__


def quantile_query(figure: Figure, quantile: float, window_s: int) -> str:
    """Return the query for one quantile of a figure over a window that ends now."""
    rate = f"sum by (le) (rate({figure.metric}_bucket[{window_s}s]))"
    value = f"histogram_quantile({quantile:g}, {rate})"
    return f"1 / ({value} > 0)" if figure.inverse else f"{value} * 1000"


def one_number(result: Any) -> float | None:
    """Return the number of an instant query's result; None without a sample or for NaN."""
    try:
        value = float(result[0]["value"][1])
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


class Figures:
    """The numbers as they were read last; reading happens beside the pages, never in their way."""

    def __init__(self, prometheus: Prometheus, now: Callable[[], float] = time.time) -> None:
        self._prometheus, self._now = prometheus, now
        self.numbers = Numbers()
        self._due: dict[str, float] = {}
        self._reading: asyncio.Task[None] | None = None
        self._charts: dict[str, tuple[float, dict[str, Any]]] = {}
        self._chart_locks = {span: asyncio.Lock() for span in SPANS}

    def keep_fresh(self) -> None:
        """Start to read what is due, unless that is being done already."""
        due = [span for span in SPANS if self._due.get(span, 0) <= time.monotonic()]
        if due and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read(due))

    async def _read(self, spans: Sequence[str]) -> None:
        for span in spans:
            before = self.numbers
            self._due[span] = time.monotonic() + SPANS[span][2]
            try:
                values = await self._values(span)
                stages, cloud = before.stages, before.cloud
                if span == "hour":
                    stages, cloud = await self._rest()
            except FiguresError as error:
                # Old figures would be taken for those of now.
                if span == "hour" or before.problem:
                    self.numbers = Numbers(problem=str(error))
                    self._due = dict.fromkeys(SPANS, time.monotonic() + SPANS["hour"][2])
                    return
                kept = {key: value for key, value in before.values.items() if key[1] != span}
                self.numbers = replace(before, values=kept, late=before.late | {span})
            else:
                values = {**before.values, **values}
                self.numbers = Numbers(values, stages, cloud, before.late - {span}, read=True)

    async def _values(self, span: str) -> dict[tuple[str, str, str], float | None]:
        asked = [(figure, word) for figure in FIGURES for word in _QUANTILES]
        window_s = SPANS[span][0]
        results = await self._prometheus.ask(
            "query",
            [{"query": quantile_query(f, _QUANTILES[word], window_s)} for f, word in asked],
        )
        return {
            (figure.name, span, word): one_number(result)
            for (figure, word), result in zip(asked, results, strict=True)
        }

    async def _rest(self) -> tuple[list[tuple[str, float]], list[dict[str, Any]]]:
        start = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        today_s = max(60, int(self._now() - start.timestamp()))
        stages, requests, tokens = await self._prometheus.ask(
            "query",
            [{"query": query} for query in (STAGES_QUERY, *cloud_queries(today_s))],
        )
        return _stages(stages), _cloud(requests, tokens)

    async def chart(self, span: str) -> dict[str, Any]:
        """Return the series of a span for its charts, asked once for all pages.

        Raises:
            FiguresError: Prometheus did not answer in time.
        """
        async with self._chart_locks[span]:
            until, known = self._charts.get(span, (0.0, {}))
            if until <= time.monotonic():
                known = await self._chart(span)
                self._charts[span] = (time.monotonic() + SPANS[span][2], known)
            return known

    async def _chart(self, span: str) -> dict[str, Any]:
        length, step, _ = SPANS[span]
        end = int(self._now()) // step * step
        times = list(range(end - length, end + 1, step))
        asked = [(figure, word) for figure in FIGURES for word in _QUANTILES]
        window_s = max(step, 300)
        results = await self._prometheus.ask(
            "query_range",
            [
                {
                    "query": quantile_query(figure, _QUANTILES[word], window_s),
                    "start": times[0],
                    "end": times[-1],
                    "step": step,
                }
                for figure, word in asked
            ],
        )
        series: dict[str, dict[str, list[float | None]]] = {}
        for (figure, word), result in zip(asked, results, strict=True):
            series.setdefault(figure.name, {})[word] = _points(result, times)
        return {"span": span, "times": times, "series": series}


STAGES_QUERY = (
    "sum by (stage) (rate(kokoro_stage_seconds_sum[1h]))"
    " / sum by (stage) (rate(kokoro_stage_seconds_count[1h]))"
)


def cloud_queries(today_s: int) -> tuple[str, str]:
    """Return the queries for today's requests to the cloud, and for their tokens."""
    by = "sum by (gen_ai_request_model, hearth_consumer)"
    return tuple(  # type: ignore[return-value]
        f'{by} (increase({metric}{{hearth_cloud="true"}}[{today_s}s]))'
        for metric in ("hearth_gateway_requests_total", "gen_ai_client_token_usage_total")
    )


def _stages(result: Any) -> list[tuple[str, float]]:
    found = [(str(one["metric"].get("stage", ""))[:60], one_number([one])) for one in result]
    return [(name, value) for name, value in found if value is not None][:MAX_ROWS]


def _cloud(requests: Any, tokens: Any) -> list[dict[str, Any]]:
    def by_owner(result: Any) -> dict[tuple[str, str], int]:
        labels = ("gen_ai_request_model", "hearth_consumer")
        return {
            tuple(str(one["metric"].get(label, "?"))[:60] for label in labels): round(  # type: ignore[misc]
                one_number([one]) or 0
            )
            for one in result
        }

    asked, used = by_owner(requests), by_owner(tokens)
    rows = [
        {"alias": alias, "consumer": consumer, "requests": asked.get((alias, consumer), 0),
         "tokens": used.get((alias, consumer), 0)}
        for alias, consumer in sorted(asked.keys() | used.keys())
    ]  # fmt: skip
    return [row for row in rows if row["requests"] or row["tokens"]][:MAX_ROWS]


def _points(result: Any, times: Sequence[int]) -> list[float | None]:
    """Return one value for each time, None where there is none, of a range query's result."""
    found: dict[int, float] = {}
    for moment, value in result[0]["values"] if result else ():
        number = float(value)
        if math.isfinite(number):
            found[int(float(moment))] = round(number, 3)
    return [found.get(moment) for moment in times]

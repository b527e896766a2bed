"""Figures come from Prometheus within their deadline, and are never waited for."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from hearth_health import figures as module
from hearth_health.figures import FIGURES, SPANS, Figures, FiguresError, Prometheus, one_number

from .sample import prometheus_answer


class Server:
    """Prometheus' side: it counts the queries and answers as told."""

    def __init__(self) -> None:
        self.queries: list[dict[str, str]] = []
        self.answer: Any = None
        self.hangs = False
        self.slow = ""

    async def handle(self, request: httpx.Request) -> httpx.Response:
        query = dict(request.url.params)
        self.queries.append(query)
        if self.hangs or (self.slow and self.slow in query["query"]):
            await asyncio.Event().wait()
        if self.answer is not None:
            return httpx.Response(200, content=self.answer)
        numbers = (float(query.get(key, 0)) for key in ("start", "end", "step"))
        path = request.url.path.rpartition("/")[2]
        result = prometheus_answer(path, query["query"], *numbers)
        return httpx.Response(200, json={"status": "success", "data": {"result": result}})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def figures(server: Server) -> Figures:
    client = httpx.AsyncClient(transport=httpx.MockTransport(server.handle))
    return Figures(Prometheus("http://10.140.30.42:9090", client))


async def read(figures: Figures) -> None:
    figures.keep_fresh()
    assert figures._reading
    async with asyncio.timeout(10):
        await figures._reading


async def test_every_figure_has_a_median_and_a_p95_for_each_span(figures: Figures) -> None:
    await read(figures)
    numbers = figures.numbers
    assert numbers.problem == ""
    assert len(numbers.values) == len(FIGURES) * len(SPANS) * 2
    assert numbers.values["ttfa", "hour", "median"] == 310.0
    assert numbers.values["ttfa", "month", "p95"] == 744.0
    assert dict(numbers.stages)["inference"] == 0.241
    assert numbers.cloud == [
        {"alias": "reasoning", "consumer": "open_webui", "requests": 14, "tokens": 23456}
    ]


async def test_figures_are_read_once_for_all_pages(figures: Figures, server: Server) -> None:
    await read(figures)
    count = len(server.queries)
    reading = figures._reading
    figures.keep_fresh()
    assert figures._reading is reading
    await asyncio.gather(*(figures.chart("hour") for _ in range(50)))
    assert len(server.queries) - count == len(FIGURES) * 2


async def test_a_prometheus_that_hangs_is_said_and_not_waited_for(
    figures: Figures, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WITHIN_S", 0.05)
    await read(figures)
    server.hangs = True
    figures._due.clear()
    await read(figures)
    assert figures.numbers.problem == "Prometheus did not answer in 0.05 s"
    # Old figures are not shown as those of now.
    assert figures.numbers.values == {}
    with pytest.raises(FiguresError, match="did not answer"):
        await figures.chart("day")


async def test_a_month_that_takes_too_long_leaves_the_hour(
    figures: Figures, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WITHIN_S", 0.5)
    server.slow = f"[{SPANS['month'][0]}s]"
    await read(figures)
    numbers = figures.numbers
    assert (numbers.problem, set(numbers.late)) == ("", {"month"})
    assert numbers.values["ttft", "hour", "median"] == 180.0
    assert ("ttft", "month", "median") not in numbers.values
    # It is asked again, later than the hour.
    server.slow = ""
    figures._due.clear()
    await read(figures)
    assert figures.numbers.late == frozenset()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "does not answer"),
        (b"<html>", "does not answer"),
        (b"[]", "does not answer"),
        (b'{"status": "error", "error": "too many samples"}', "too many samples"),
        (b'{"status": "success"}', "does not answer"),
    ],
)
async def test_what_is_no_answer_is_a_problem(
    figures: Figures, server: Server, answer: bytes, words: str
) -> None:
    server.answer = answer
    await read(figures)
    assert words in figures.numbers.problem


async def test_a_house_without_prometheus_says_so() -> None:
    figures = Figures(Prometheus(""))
    await read(figures)
    assert figures.numbers.problem == "this house has no Prometheus"


async def test_a_prometheus_that_is_away_says_so() -> None:
    figures = Figures(Prometheus("http://127.0.0.1:1"))
    await read(figures)
    assert figures.numbers.problem == "Prometheus does not answer (ConnectError)"


async def test_nothing_measured_is_nothing(figures: Figures, server: Server) -> None:
    server.answer = json.dumps({"status": "success", "data": {"result": []}}).encode()
    await read(figures)
    assert set(figures.numbers.values.values()) == {None}
    assert figures.numbers.cloud == []
    chart = await figures.chart("month")
    assert set(chart["series"]["ttft"]["median"]) == {None}
    assert len(chart["times"]) == len(chart["series"]["ttft"]["median"])


def test_a_number_that_is_none_is_none() -> None:
    assert one_number([{"value": [0, "NaN"]}]) is None
    assert one_number([{"value": [0, "+Inf"]}]) is None
    assert one_number([{"value": [0]}]) is None
    assert one_number([{"value": [0, "1.5"]}]) == 1.5

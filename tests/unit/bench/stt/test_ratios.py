"""Each ratio from figures that the test makes up: what reaches it, what does not, what is open."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from hearth.bench.baseline import Baseline
from hearth.bench.report import Ratio, figures_of
from hearth.bench.stt.requests import FIELDS, SttCase, SttSample
from hearth.bench.stt.run import CROWD, FILE, FOUR, LIVE, SttPlan, SttSession
from hearth.bench.stt.word_errors import SttServer
from hearth.clients.endpoints import Endpoint

Times = dict[SttCase, list[float]]


def new_server() -> SttServer:
    return SttServer(Endpoint("s", ""), httpx.AsyncClient())


def measured(
    *finals_s: float, files_s: tuple[float, ...] = (), missing: str = "", **more: Any
) -> SttSession:
    server = new_server()
    for final_s in finals_s:
        server.add(LIVE, [SttSample(3.2, final_ms=final_s * 1000)])
    for whole_s in files_s:
        server.add(FILE, [SttSample(30.0, whole_ms=whole_s * 1000)])
    for crowd_s in more.pop("crowds_s", ()):
        server.add(CROWD, [SttSample(3.2, final_ms=crowd_s * 1000)] * FOUR)
    server.health_s = more.pop("health_s", [])
    session = SttSession(SttPlan(), [server], Baseline(None, missing))
    session.times_s |= more.pop("baseline", {})
    assert not more
    return session


def ratios(of: SttSession) -> list[Ratio]:
    return of.ratios(of.servers[0])


def find(of: SttSession, what: str) -> Ratio:
    (row,) = [row for row in ratios(of) if row.what.startswith(what)]
    return row


def baseline(*three_s: float) -> Times:
    return {LIVE: list(three_s)}


def four(*calls_s: float) -> Times:
    return {CROWD: list(calls_s)}


@pytest.mark.parametrize(
    ("what", "of", "value", "verdict"),
    [
        ("end", measured(0.52, 0.549, 3.0), 549, "reached"),
        ("end", measured(0.52, baseline=baseline(0.1)), 520, "reached"),
        ("end", measured(0.56, baseline=baseline(0.1)), 560, "not reached"),
        ("end", measured(3.4, baseline=baseline(3.0, 2.0, 9.0)), 3400, "reached"),
        ("end", measured(3.6, baseline=baseline(3.0)), 3600, "not reached"),
        # Without a baseline it is unknown whether the machine can do better.
        ("end", measured(0.6, missing="no command"), None, "not measured"),
        ("end", measured(), None, "not measured"),
        (
            "four",
            measured(crowds_s=(11.0, 13.0, 11.5), baseline=four(10.0, 10.0, 10.0)),
            1.15,
            "reached",
        ),
        ("four", measured(crowds_s=(12.5,), baseline=four(10.0)), 1.25, "not reached"),
        ("four", measured(baseline=four(10.0)), None, "not measured"),
        ("/health", measured(health_s=[0.002] * 99 + [0.4]), 2.0, "reached"),
        ("/health", measured(health_s=[0.002] * 98 + [0.4] * 2), 400.0, "not reached"),
        ("/health", measured(health_s=[0.002] * 5), None, "not measured"),
        ("/health", measured(health_s=[0.002] * 99 + [None]), 2.0, "not reached"),
        ("seconds of work", measured(files_s=(6.0, 15.0, 6.3)), 0.21, "reached"),
        ("seconds of work", measured(files_s=(18.0,)), 0.6, "not reached"),
    ],
)
def test_each_ratio(what: str, of: SttSession, value: float | None, verdict: str) -> None:
    row = find(of, what)
    assert (row.verdict, row.value) == (verdict, pytest.approx(value) if value else value)
    assert bool(row.reason) == (row.value is None or "answer" in row.reason)


def test_what_failed_counts_for_nothing() -> None:
    of = measured(0.5)
    (server,) = of.servers
    server.add(LIVE, [SttSample(3.2, "it closed the connection", final_ms=9000)])
    assert find(of, "end").n == 1
    assert figures_of(LIVE, server.samples[LIVE], FIELDS).failed == 1


def test_another_server_is_held_to_what_files_and_health_say() -> None:
    assert len(ratios(measured(0.5))) == 4
    assert len(measured(0.5).ratios(new_server())) == 2

"""Each ratio from figures that the test makes up: what reaches it, what does not, what is open."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from hearth.bench.baseline import Baseline
from hearth.bench.report import Ratio, figures_of
from hearth.bench.stt.extras import SttServer, Vad, memory_loop
from hearth.bench.stt.requests import FIELDS, Case, SttSample
from hearth.bench.stt.run import CROWD, FILE, FOUR, LIVE, SttPlan, SttSession
from hearth.clients.endpoints import Endpoint
from hearth.clients.stats import Spread

MIB = 2**20


Times = dict[Case, list[float]]


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
    for name in ("health_s", "vad", "loop"):
        if name in more:
            setattr(server, name, more.pop(name))
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


def vad(ms: float) -> Vad:
    return Vad(Spread(3, 9.0, 9.0), ms, None, "")


def grown(*mib: int, heard_s: float = 3600) -> Any:
    samples = [(60.0 * n, size * MIB) for n, size in enumerate(mib)]
    return memory_loop(3600, heard_s, samples)


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
        ("voice", measured(vad=vad(2.9)), 2.9, "reached"),
        ("voice", measured(vad=vad(3.1)), 3.1, "not reached"),
        ("voice", measured(vad=Vad(None, None, None, "no socket")), None, "not measured"),
        # What another program computed is unknown; then elapsed time must do.
        ("voice", measured(vad=Vad(Spread(3, 2.5, 9.0), None, 1.0, "")), 2.5, "reached"),
        ("/health", measured(health_s=[0.002] * 99 + [0.4]), 2.0, "reached"),
        ("/health", measured(health_s=[0.002] * 98 + [0.4] * 2), 400.0, "not reached"),
        ("/health", measured(health_s=[0.002] * 5), None, "not measured"),
        ("/health", measured(health_s=[0.002] * 99 + [None]), 2.0, "not reached"),
        ("seconds of work", measured(files_s=(6.0, 15.0, 6.3)), 0.21, "reached"),
        ("seconds of work", measured(files_s=(18.0,)), 0.6, "not reached"),
        ("growth", measured(loop=grown(300, 390, 400, 400, 405, 409, 409, 409)), 9, "reached"),
        ("growth", measured(loop=grown(300, 390, 400, 400, 405, 409, 412, 412)), 12, "not reached"),
        ("growth", measured(loop=grown(300, 290, 280, 270)), 0, "reached"),
        ("growth", measured(loop=grown()), None, "not measured"),
        ("growth", measured(loop=grown(1, 1, 1)), None, "not measured"),
        # What was cut short is no proof, but what has grown by then has grown.
        ("growth", measured(loop=grown(1, 1, 1, 1, heard_s=180)), None, "not measured"),
        ("growth", measured(loop=grown(1, 1, 1, 20, heard_s=180)), 19, "not reached"),
    ],
)
def test_each_ratio(what: str, of: SttSession, value: float | None, verdict: str) -> None:
    row = find(of, what)
    assert (row.verdict, row.value) == (verdict, pytest.approx(value) if value else value)
    assert bool(row.reason) == (row.value is None or "answer" in row.reason)


def test_a_growth_that_was_not_measured_has_a_reason() -> None:
    def why(loop: Any) -> str:
        return find(measured(loop=loop), "growth over 60 minutes").reason

    assert why(grown()) == "the server does not report its memory"
    assert why(grown(1, 1, 1)) == "only 3 samples"
    assert why(grown(1, 1, 1, 1, heard_s=204)) == "only 3.4 of 60 minutes"


def test_what_failed_counts_for_nothing() -> None:
    of = measured(0.5)
    (server,) = of.servers
    server.add(LIVE, [SttSample(3.2, "it closed the connection", final_ms=9000)])
    assert find(of, "end").n == 1
    assert figures_of(LIVE, server.samples[LIVE], FIELDS).failed == 1


def test_another_server_is_held_to_what_files_and_health_say() -> None:
    assert len(ratios(measured(0.5))) == 5
    assert len(measured(0.5).ratios(new_server())) == 2
    assert len(ratios(measured(0.5, loop=grown(1, 1, 1, 1)))) == 6

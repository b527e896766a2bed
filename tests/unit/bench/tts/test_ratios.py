"""Each ratio from figures that the test makes up: what reaches it, what does not, what is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx
import pytest

from hearth.bench.baseline import Baseline
from hearth.bench.report import Ratio, health_of
from hearth.bench.tts.answer import TtsCase, TtsSample
from hearth.bench.tts.run import Round, TtsPlan, TtsServer, TtsSession
from hearth.clients.endpoints import Endpoint


def sample(ttfa_s: float, last_s: float = 1.5, stalls: int = 0, error: str = "") -> TtsSample:
    first_ms = ttfa_s * 1000
    return TtsSample(90, error, first_ms, first_ms, last_s * 1000, stalls=stalls, audio_s=6.0)


def server(samples: Mapping[TtsCase, Sequence[TtsSample]]) -> TtsServer:
    kept = {case: list(some) for case, some in samples.items()}
    return TtsServer(Endpoint("s", ""), httpx.AsyncClient(), kept)


def measured(
    *fresh: TtsSample,
    more: dict[TtsCase, Sequence[TtsSample]] | None = None,
    caddy_s: Sequence[tuple[float, float]] = (),
    health_s: Sequence[float | None] = (),
) -> TtsSession:
    """Return a session with these samples; the first of the pairs through Caddy does not count."""
    paths = list(zip(*[(9.0, 9.0), *caddy_s], strict=True))
    direct, through = ({TtsCase("caddy"): [sample(each) for each in path]} for path in paths)
    first = server({TtsCase("phrase"): fresh, **direct, **(more or {})})
    first.health_s = list(health_s)
    answered = [one for one in fresh if not one.error]
    rounds = [
        Round("Anna opened", 300, 1500, {"s": one.ttfa_ms}, {"s": one.last_byte_ms})
        for one in answered
    ]
    session = TtsSession(TtsPlan(), [first], Baseline(), rounds=rounds)
    session.caddy = server(through) if caddy_s else None
    return session


def ratios(of: TtsSession) -> list[Ratio]:
    return of.ratios(of.servers[0])


def find(of: TtsSession, what: str) -> Ratio:
    (row,) = [row for row in ratios(of) if row.what.startswith(what)]
    return row


@pytest.mark.parametrize(
    ("what", "of", "value", "verdict"),
    [
        ("TTFA - baseline", measured(sample(0.31), sample(0.315), sample(0.9)), 15.0, "reached"),
        ("TTFA - baseline", measured(sample(0.33)), 30.0, "not reached"),
        ("TTFA ÷", measured(sample(0.3)), 0.2, "reached"),
        ("TTFA ÷", measured(sample(0.33)), 0.22, "not reached"),
        ("whole", measured(sample(0.3, 1.71)), 1.14, "reached"),
        ("whole", measured(sample(0.3, 1.8)), 1.2, "not reached"),
        ("stalls, phrase", measured(sample(0.3)), 0.0, "reached"),
        ("stalls, phrase", measured(sample(0.3), sample(0.3, stalls=2)), 2.0, "not reached"),
        (
            "stalls, phrase",
            measured(sample(0.3), more={TtsCase("phrase", repeated=True): [sample(0.1, stalls=1)]}),
            1.0,
            "not reached",
        ),
        ("stalls, long", measured(more={TtsCase("long"): [sample(0.3)]}), 0.0, "reached"),
        ("stalls, long", measured(sample(0.3)), None, "not measured"),
        (
            "mean TTFA of four",
            measured(
                sample(0.3, 1.0),
                more={TtsCase("phrase", clients=4): [sample(t) for t in (0.2, 0.4, 0.6, 1.0)]},
            ),
            0.55,
            "reached",
        ),
        (
            "mean TTFA of four",
            measured(sample(0.3, 1.0), more={TtsCase("phrase", clients=4): [sample(0.7)]}),
            0.7,
            "not reached",
        ),
        (
            "TTFA of a repeat",
            measured(more={TtsCase("phrase", repeated=True): [sample(0.006), sample(0.012)]}),
            9.0,
            "reached",
        ),
        (
            "TTFA of a repeat",
            measured(more={TtsCase("phrase", repeated=True): [sample(0.011)]}),
            11.0,
            "not reached",
        ),
        ("first byte", measured(caddy_s=[(0.004, 0.008), (0.004, 0.1)]), 50.0, "not reached"),
        ("first byte", measured(caddy_s=[(0.004, 0.008)]), 4.0, "reached"),
        ("first byte", measured(), None, "not measured"),
        ("/health", measured(health_s=[0.002] * 99 + [0.4]), 2.0, "reached"),
        ("/health", measured(health_s=[0.002] * 98 + [0.4] * 2), 400.0, "not reached"),
        ("/health", measured(health_s=[0.002] * 5), None, "not measured"),
        ("/health", measured(health_s=[0.002] * 99 + [None]), 2.0, "not reached"),
    ],
)
def test_each_ratio(what: str, of: TtsSession, value: float | None, verdict: str) -> None:
    row = find(of, what)
    assert row.verdict == verdict
    if value is not None:
        assert row.value == pytest.approx(value)
    assert bool(row.reason) == (row.value is None or "answer" in row.reason)


def test_what_failed_counts_for_nothing() -> None:
    of = measured(sample(9.0, error="HTTP 500"), sample(0.3))
    assert find(of, "TTFA ÷").n == 1
    assert find(of, "TTFA ÷").value == pytest.approx(0.2)


def test_all_rows_of_the_table_are_there_and_fewer_for_another_server() -> None:
    session = measured(sample(0.3))
    assert len(ratios(session)) == 9
    assert len(session.ratios(server({}))) == 7


def test_health_without_any_answer() -> None:
    assert health_of([]) is None
    health = health_of([None, None])
    assert health is not None
    assert (health.n, health.failed) == (0, 2)

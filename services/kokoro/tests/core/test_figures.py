"""Figures are those of the last 500."""

from hearth_kokoro.figures import Figures, summary


def test_median_and_p95_by_nearest_rank() -> None:
    assert summary([]) == {"n": 0, "median": None, "p95": None}
    assert summary([3.0]) == {"n": 1, "median": 3.0, "p95": 3.0}
    assert summary([float(n) for n in range(1, 101)]) == {"n": 100, "median": 50.0, "p95": 95.0}


def test_only_the_last_ones_are_kept() -> None:
    figures = Figures()
    figures.ttfa_ms.extend(float(n) for n in range(2000))
    assert summary(figures.ttfa_ms)["n"] == 500
    assert figures.ttfa_ms[0] == 1500

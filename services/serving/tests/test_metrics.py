"""Figures are those of the last 500."""

from hearth_serving.metrics import recent, summary


def test_median_and_p95_by_nearest_rank() -> None:
    assert summary([]) == {"n": 0, "median": None, "p95": None}
    assert summary([3.0]) == {"n": 1, "median": 3.0, "p95": 3.0}
    assert summary([float(n) for n in range(1, 101)]) == {"n": 100, "median": 50.0, "p95": 95.0}


def test_only_the_last_values_are_kept() -> None:
    kept = recent()
    kept.extend(float(n) for n in range(2000))
    assert summary(kept)["n"] == 500
    assert kept[0] == 1500

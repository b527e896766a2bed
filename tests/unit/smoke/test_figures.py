"""Figures say what was seen and interpolate nothing."""

import pytest

from hearth.smoke.plugin import Notes
from hearth.smoke.receipt import summarise


@pytest.mark.parametrize(
    ("values", "median", "p95"),
    [
        ([3.0], 3.0, 3.0),
        ([1.0, 2.0, 3.0, 10.0], 2.5, 10.0),
        ([float(value) for value in range(1, 101)], 50.5, 95.0),
    ],
)
def test_median_and_tail(values: list[float], median: float, p95: float) -> None:
    figure = summarise("first token", "ms", list(reversed(values)))
    assert (figure.n, figure.median, figure.p95) == (len(values), median, p95)


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        Notes().figure("x", "s", [])


def test_values_of_several_tests_become_one_figure() -> None:
    notes = Notes()
    for value in (1.4, 1.7, 1.5):
        notes.sample("exposure of units", "of 10", value)
    notes.figure("first token", "ms", [20.0])
    said = notes.as_event()["figures"]
    assert [(f["name"], f["n"], f["median"]) for f in said] == [  # type: ignore[attr-defined]
        ("first token", 1, 20.0),
        ("exposure of units", 3, 1.5),
    ]

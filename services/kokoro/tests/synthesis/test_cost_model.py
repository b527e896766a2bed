"""The model learns the machine's own speed, despite disturbances."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_kokoro.synthesis.cost_model import CostModel, InferenceRun, retry_after_seconds


def run(phonemes: int, seconds: float, speed: float = 1.0, characters: int = 0) -> InferenceRun:
    sound_s = 0.075 * phonemes / speed
    return InferenceRun("en-us", characters or phonemes, phonemes, speed, seconds, sound_s)


def true(phonemes: int, speed: float = 1.0) -> InferenceRun:
    return run(phonemes, 0.06 + 0.028 * phonemes / speed, speed)


def test_the_warm_up_separates_fixed_from_proportional_cost() -> None:
    pace = CostModel()
    pace.calibrate([true(12), true(60), true(12)])
    rate = pace.rate("en-us")
    assert rate.cost_s(0) == pytest.approx(0.06, abs=0.01)
    assert rate.cost_s(90) == pytest.approx(0.06 + 0.028 * 90, rel=0.05)
    assert rate.sound_s(100) == pytest.approx(7.5, rel=0.03)


def test_a_disturbed_warm_up_is_corrected() -> None:
    pace = CostModel()
    pace.calibrate([run(12, 2.0), run(60, 3.0), run(12, 2.0)])
    for _ in range(60):
        for size in (12, 40, 150):
            pace.learn(true(size))
    rate = pace.rate("en-us")
    assert rate.fixed_s == pytest.approx(0.06, abs=0.02)
    assert rate.cost_s(100) == pytest.approx(2.86, rel=0.05)


def test_a_slower_machine_is_detected_at_once_and_a_faster_one_soon() -> None:
    pace = CostModel()
    pace.calibrate([true(12), true(60)])
    before = pace.rate("en-us").cost_s(50)
    for _ in range(3):
        pace.learn(run(50, 3 * (0.06 + 0.028 * 50)))
    slower = pace.rate("en-us").cost_s(50)
    assert slower > 2 * before
    for _ in range(30):
        pace.learn(true(50))
    assert pace.rate("en-us").cost_s(50) < 1.3 * before


def test_speed_and_shares_change_the_cost_as_they_should() -> None:
    pace = CostModel()
    pace.calibrate([true(12), true(60)])
    alone, slow = pace.rate("en-us"), pace.rate("en-us", 0.5)
    assert slow.cost_s(50) - slow.fixed_s == pytest.approx(2 * (alone.cost_s(50) - alone.fixed_s))
    assert slow.sound_s(50) == pytest.approx(2 * alone.sound_s(50))
    assert alone.shared(3).cost_s(50) == pytest.approx(3 * alone.cost_s(50))
    assert alone.shared(3).sound_s(50) == alone.sound_s(50)
    assert alone.cost_s(alone.characters_in(2.0)) == pytest.approx(2.0)


def test_a_language_with_more_phonemes_per_letter_costs_more() -> None:
    pace = CostModel()
    pace.calibrate([true(12), true(60)])
    for _ in range(60):
        pace.learn(InferenceRun("hi", 30, 60, 1.0, 0.06 + 0.028 * 60, 4.5))
    assert pace.rate("hi").cost_s(50) > 1.6 * pace.rate("en-us").cost_s(50)


RUNS = st.tuples(st.integers(1, 510), st.floats(1e-4, 500), st.sampled_from([0.25, 1.0, 4.0]))


@settings(deadline=None)
@given(st.lists(RUNS, min_size=1, max_size=30))
def test_no_measurement_makes_an_invalid_rate(runs: list[tuple[int, float, float]]) -> None:
    pace = CostModel()
    pace.calibrate([run(*runs[0])])
    for found in runs:
        pace.learn(run(*found))
    rate = pace.rate("en-us")
    assert rate.fixed_s >= 0
    assert rate.per_character_s > 0
    assert rate.sound_per_character_s > 0
    assert rate.cost_s(100) < 1e6


def test_retry_after_is_whole_and_bounded() -> None:
    assert [retry_after_seconds(s) for s in (0, 0.2, 3.2, 1e9)] == [1, 1, 4, 120]

"""The likely causes of a slow model, in the order in which to look for them."""

from __future__ import annotations

import pytest

from hearth.bench.accelerator import GPU_PROVEN, NO_GPU, NOT_MEASURED, SOFTWARE, Proof
from hearth.bench.llm.report import Expected, InMemory, Match, Slowed, causes, matches

GIB = 2**30
WHOLE, HALF, NONE = (InMemory(4 * GIB, part * GIB) for part in (4, 2, 0))
HOT = Slowed("the processor became too hot 3 times and slowed itself down", 1)


def words(found: list[str]) -> list[str]:
    return [line.partition(":")[0] for line in found]


def test_all_of_them_are_in_the_order_in_which_to_look() -> None:
    proof = Proof("m", NO_GPU, "reads at most 1.1 times as fast as on the CPU alone")
    assert words(causes(HALF, proof, HOT, True)) == [
        "it computes on the processor, silently",
        "throttled",
        "one memory channel",
        "spilled",
    ]


@pytest.mark.parametrize(
    ("in_memory", "verdict", "card", "silent"),
    [
        (NONE, NOT_MEASURED, True, True),
        (WHOLE, SOFTWARE, True, True),
        (WHOLE, NO_GPU, True, True),
        (WHOLE, GPU_PROVEN, True, False),
        (WHOLE, NOT_MEASURED, True, False),
        (NONE, NO_GPU, False, False),
    ],
)
def test_the_processor_is_a_cause_only_where_a_card_was_expected(
    in_memory: InMemory, verdict: str, card: bool, silent: bool
) -> None:
    found = words(causes(in_memory, Proof("m", verdict, "why"), Slowed(), card))
    assert ("it computes on the processor, silently" in found) == silent


def test_one_module_slows_a_processor_and_not_a_proven_card() -> None:
    proven = Proof("m", GPU_PROVEN, "why")
    assert words(causes(WHOLE, proven, Slowed("", 1), True)) == []
    assert words(causes(NONE, None, Slowed("", 1), False)) == ["one memory channel"]
    assert words(causes(NONE, None, Slowed("", 2), False)) == []
    assert words(causes(NONE, None, Slowed("", None), False)) == []


@pytest.mark.parametrize(
    ("figure", "expected", "match"),
    [
        (10.0, Expected(12.0, 10.0, 15.0), "as predicted"),
        (15.1, Expected(12.0, 10.0, 15.0), "faster"),
        (9.9, Expected(12.0, 10.0, 15.0), "slower"),
        (9.9, Expected(12.0), "not predicted"),
        (9.9, None, "not predicted"),
        (None, Expected(12.0, 10.0, 15.0), "not measured"),
    ],
)
def test_a_figure_is_compared_with_its_band(
    figure: float | None, expected: Expected | None, match: Match
) -> None:
    assert matches(figure, expected) == match

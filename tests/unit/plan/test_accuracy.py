"""The predictions beside what people measured; docs/planner.md has the same figures."""

import itertools
import statistics

import pytest

from tests.unit.plan import table
from tests.unit.plan.published import CONTRADICT, Published, rows

# Machines of the check rows on which Hearth runs, with layers placed by the runtime itself.
HOUSES = {
    *("rtx-5070", "rtx-4090-265k", "rtx-4070-ti-265k", "rtx-2080-ti", "rtx-a4000"),
    *("radeon-r9700", "gb10-dell", "strix-halo-framework", "ryzen-ai-340"),
}


def some(use: str) -> list[Published]:
    return [row for row in rows() if row.use == use]


def errors(them: list[Published]) -> list[float]:
    return [abs(row.error) for row in them]


def pairs(them: list[Published]) -> list[tuple[Published, Published]]:
    """Return the pairs on one machine that differ by more than 30 %, the faster one first."""
    found = []
    for one, other in itertools.combinations(them, 2):
        fast, slow = sorted((one, other), key=lambda row: -row.measured)
        same = one.machine != other.machine or one.inputs == other.inputs
        if not same and fast.measured > 1.3 * slow.measured:
            found.append((fast, slow))
    return found


def test_the_eleven_rows() -> None:
    eleven = some("eleven")
    assert len(eleven) == 11
    assert statistics.median(errors(eleven)) <= 0.15
    (spilled,) = (row for row in eleven if row.model == "qwen3.5:27b")
    assert spilled.prediction["where"] == "spilled"
    assert 1 / 1.5 <= spilled.prediction["tokens_per_s"] / spilled.measured <= 1.5


def test_rows_that_the_constants_never_saw_on_machines_of_houses() -> None:
    seen = [
        row
        for row in some("check")
        if row.machine in HOUSES and row.prediction["where"] != "spilled"
    ]
    assert len(seen) >= 8
    assert statistics.median(errors(seen)) <= 0.10
    assert max(errors(seen)) <= 0.40


def test_all_rows_that_the_constants_never_saw() -> None:
    check = some("check")
    assert len(check) >= 50
    assert statistics.median(errors(check)) <= 0.12
    # The exceptions are named in docs/planner.md: M1's quantised kernels, ARM, 192 cores.
    assert sum(error > 0.35 for error in errors(check)) <= 10


@pytest.mark.parametrize("use", ["eleven", "fit", "check"])
def test_pairs_that_differ_are_in_the_right_order(use: str) -> None:
    found = pairs(some(use))
    right = [
        fast.prediction["tokens_per_s"] > slow.prediction["tokens_per_s"] for fast, slow in found
    ]
    assert len(found) > 10
    assert sum(right) / len(right) >= 0.9


def test_the_range_holds_nine_of_ten_of_the_rows_that_were_seen() -> None:
    seen = [
        row
        for row in [*some("fit"), *some("eleven")]
        if (row.model, row.inputs[2]) not in CONTRADICT
    ]
    inside = [row.prediction["low"] <= row.measured <= row.prediction["high"] for row in seen]
    assert sum(inside) / len(inside) >= 0.9


def test_what_contradicts_is_named_with_the_rows_that_it_contradicts() -> None:
    named = {(row.model, row.inputs[2]): row for row in some("eleven")}
    by_name = {row.model: row for row in some("eleven")}
    # A mixture with as many active parameters is 2.6 times slower than its sister.
    sister = by_name["qwen3:30b-a3b"]
    assert sister.measured / named[("qwen3.5-abliterated:35b-a3b", "Q4_K_M")].measured > 2.5
    # A model of 4 billion parameters is slower than one of 7 on the same card.
    assert by_name["qwen3.5:4b"].measured < by_name["qwen2.5-coder:7b"].measured
    # The same inputs have two speeds.
    twins = by_name["qwen2.5-coder:7b"], by_name["deepseek-r1:7b"]
    assert twins[0].inputs == twins[1].inputs
    assert twins[0].measured / twins[1].measured > 1.3


def test_every_published_row_has_its_source() -> None:
    assert all(row.source.startswith("https://") for row in rows() if row.use != "eleven")


def test_the_document_has_todays_tables() -> None:
    text = table.DOCUMENT.read_text(encoding="utf-8")
    assert table.replaced(text) == text, "run `python -m tests.unit.plan.table`"


def test_rows_that_were_found_after_the_fit() -> None:
    blind = some("blind")
    assert len(blind) >= 8
    assert statistics.median(errors(blind)) <= 0.10
    # The three exceptions are named in docs/planner.md.
    assert sum(error > 0.35 for error in errors(blind)) <= 3


def test_it_is_better_than_llmfit_on_every_set_of_rows() -> None:
    other = table.llmfit()
    for use in ("eleven", "check", "blind"):
        both = [
            (abs(row.error), abs(other[key] / row.measured - 1))
            for row in some(use)
            if (key := (row.machine, row.model, row.inputs[2])) in other
        ]
        ours, theirs = (statistics.median(each) for each in zip(*both, strict=True))
        assert ours < theirs

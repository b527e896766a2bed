"""The planner's prediction for a model as Ollama describes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hearth.bench.llm.predicted import prediction
from hearth.plan.machine import Place

GIB = 2**30
CARD = Place(
    name="card",
    backend="cuda",
    kind="dedicated",
    memory_bytes=8 * GIB,
    bandwidth_bytes_per_s=300e9,
    host_memory_bytes=32 * GIB,
    host_bandwidth_bytes_per_s=60e9,
)
CPU = Place(
    name="processor",
    backend="cpu",
    kind="shared",
    memory_bytes=64 * GIB,
    bandwidth_bytes_per_s=50e9,
)


def test_a_model_of_the_list_has_its_own_dimensions() -> None:
    one = prediction("qwen3:8b", "8.2B", "Q4_K_M", 8192, CARD)
    assert one is not None
    assert one.where == "vram"
    assert one.note == ""
    assert one.low is not None
    assert one.high is not None
    assert 30 < one.low < one.tokens_per_s < one.high < 80


def test_another_model_is_estimated_and_that_is_said() -> None:
    one = prediction("own:7b", "7.6B", "Q4_K_M", 8192, CARD)
    assert one is not None
    assert one.note == "its dimensions are estimated from its number of parameters"
    # The name is the list's, and the size is another model's.
    other = prediction("qwen3:8b", "3.1B", "Q4_K_M", 8192, CARD)
    assert other is not None
    assert other.note == one.note
    assert other.tokens_per_s > one.tokens_per_s


def test_a_mixture_is_as_fast_as_its_active_parameters() -> None:
    dense = prediction("own:30b", "30.5B", "Q4_K_M", 8192, CPU)
    mixture = prediction("own:30b-a3b", "30.5B", "Q4_K_M", 8192, CPU)
    assert dense is not None
    assert mixture is not None
    assert mixture.tokens_per_s > 4 * dense.tokens_per_s


def test_what_does_not_fit_on_the_card_is_expected_to_spill() -> None:
    one = prediction("own:14b", "14.8B", "Q4_K_M", 8192, CARD)
    assert one is not None
    assert one.where == "spilled"
    # The model itself, which is loaded while the machine is measured, leaves no less room.
    again = prediction("own:7b", "7.6B", "Q4_K_M", 8192, replace(CARD, held_bytes=7 * GIB))
    assert again is not None
    assert again.where == "vram"


@pytest.mark.parametrize(
    ("parameters", "quantisation"),
    [
        ("", "Q4_K_M"),
        ("137M", "F16"),
        ("many", "Q4_K_M"),
        ("7.6B", "Q9_9"),
        ("1.2.3B", "Q4_0"),
        ("999T", "F32"),
    ],
)
def test_what_nobody_knows_is_not_predicted(parameters: str, quantisation: str) -> None:
    assert prediction("own:7b", parameters, quantisation, 8192, CPU) is None

"""What llmfit is asked and how its answers are read; the real one where it is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence

import pytest

from hearth.bench.llm.llmfit import Llmfit, find_llmfit

MODELS = [
    {"name": "Qwen/Qwen2.5-Coder-7B-Instruct", "ollama_name": "qwen2.5-coder:7b"},
    {"name": "x/y", "ollama_name": None},
    "nonsense",
]


class Fake:
    """Answers as llmfit 1.1.17 does, and keeps what it was asked."""

    def __init__(self, speed: object = 3.17, quant: str = "Q4_K_M") -> None:
        self.speed, self.quant, self.asked = speed, quant, list[list[str]]()

    def __call__(self, arguments: Sequence[str]) -> str:
        self.asked.append(list(arguments))
        if arguments[0] == "fit":
            return json.dumps({"models": MODELS})
        current = {"estimated_tps": self.speed, "run_mode": "CpuOnly"}
        return json.dumps({"quantization": self.quant, "current": current})


def found(run: Fake) -> Llmfit:
    llmfit = find_llmfit(run)
    assert llmfit is not None
    return llmfit


@pytest.mark.parametrize("name", ["qwen2.5-coder:7b", "qwen2.5-coder:7b-instruct-q8_0"])
def test_it_is_asked_for_what_was_measured(name: str) -> None:
    run = Fake()
    one = found(run).expected(name, "Q4_K_M", 8192)
    assert one is not None
    assert (one.tokens_per_s, one.where, one.low) == (3.17, "CpuOnly", None)
    assert one.note == "it takes the model for Qwen/Qwen2.5-Coder-7B-Instruct"
    asked = ["plan", "Qwen/Qwen2.5-Coder-7B-Instruct", "--context", "8192", "--quant", "Q4_K_M"]
    assert run.asked[-1] == [*asked, "--json"]


def test_another_quantisation_is_said() -> None:
    one = found(Fake(quant="Q8_0")).expected("qwen2.5-coder:7b", "Q4_K_M", None)
    assert one is not None
    assert one.note.endswith("in Q8_0")


def test_a_model_that_it_does_not_know_has_no_prediction() -> None:
    assert found(Fake()).expected("qwen9:7b", "Q4_K_M", 8192) is None


@pytest.mark.parametrize("speed", [None, "fast", 0, -1, []])
def test_nonsense_is_no_prediction(speed: object) -> None:
    assert found(Fake(speed)).expected("qwen2.5-coder:7b", "", 8192) is None


@pytest.mark.parametrize("output", ["", "{", "[]", '{"models": 5}', '{"models": []}'])
def test_without_a_list_of_models_it_is_not_there(output: str) -> None:
    assert find_llmfit(lambda _: output) is None


@pytest.mark.skipif(shutil.which("llmfit") is None, reason="llmfit is not installed here")
def test_the_real_one_predicts_a_well_known_model() -> None:
    llmfit = find_llmfit()
    assert llmfit is not None
    one = llmfit.expected("qwen2.5-coder:7b", "Q4_K_M", 8192)
    assert one is not None
    assert one.tokens_per_s > 0

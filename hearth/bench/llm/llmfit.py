"""What llmfit predicts of a model on this machine, where it is installed (`pip install llmfit`).

It is asked for the quantisation and the context that were measured, as far as it knows the model.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.bench.llm.report import Expected
from hearth.clients.models import key_of

_WITHIN_S = 30.0
LLMFIT = "llmfit"

Run = Callable[[Sequence[str]], str]
"""Runs llmfit with some arguments; returns its standard output, or empty where it fails."""


@dataclass(frozen=True, slots=True)
class Llmfit:
    """llmfit with its own names of models by Ollama's names."""

    run: Run
    names: dict[str, str]

    def expected(self, model_id: str, quantisation: str, context: int | None) -> Expected | None:
        """Return its prediction; None for a model that it does not know."""
        name = self.names.get(key_of(model_id)) or self.names.get(_family(model_id))
        if not name:
            return None
        quant = ["--quant", quantisation] if quantisation else []
        found = _json(self.run(["plan", name, "--context", str(context or 4096), *quant, "--json"]))
        current = found.get("current") or {}
        speed = current.get("estimated_tps")
        if not isinstance(speed, int | float) or speed <= 0:
            return None
        assumed = found.get("quantization")
        note = f"it takes the model for {name}"
        if quantisation and assumed != quantisation:
            note += f" in {assumed}"
        return Expected(float(speed), where=str(current.get("run_mode") or ""), note=note)


def find_llmfit(run: Run | None = None) -> Llmfit | None:
    """Return llmfit; None where it is not installed or does not list its models."""
    if run is None and shutil.which(LLMFIT) is None:
        return None
    run = run or _run
    models = _json(run(["fit", "--json"])).get("models")
    names: dict[str, str] = {}
    for model in models if isinstance(models, list) else ():
        if isinstance(model, dict) and model.get("ollama_name"):
            names.setdefault(key_of(str(model["ollama_name"])), str(model.get("name")))
    return Llmfit(run, names) if names else None


def _family(model_id: str) -> str:
    """Return the name without what follows a tag's first part: `qwen3:8b-q4_K_M` is `qwen3:8b`."""
    name, _, tag = key_of(model_id).rpartition(":")
    return f"{name}:{tag.partition('-')[0]}"


def _run(arguments: Sequence[str]) -> str:
    try:
        return subprocess.run(  # noqa: S603  fixed words, no shell
            [shutil.which(LLMFIT) or LLMFIT, *arguments],
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

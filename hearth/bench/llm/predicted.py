"""What `hearth plan` predicts of a model, with the quantisation and context that were measured."""

from __future__ import annotations

import re
from dataclasses import replace

from hearth.bench.llm.report import Expected
from hearth.plan import PlanError
from hearth.plan.estimate import estimated_work
from hearth.plan.machine import Place
from hearth.plan.memory import Loaded, reserve_lines
from hearth.plan.models import find_model
from hearth.plan.quantisation import normal
from hearth.plan.speed import LEAST_PARAMETERS, Work, speed_of

_SIZE = re.compile(r"([\d.]+)\s*([KMBT])", re.IGNORECASE)
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
# A mixture's name has its active parameters, such as qwen3:30b-a3b.
_ACTIVE = re.compile(r"\ba([\d.]+)b\b", re.IGNORECASE)
_CONTEXT = 4096
# The list's number and Ollama's differ by what each counts, not by a model.
_ALIKE = 0.25


def prediction(
    model_id: str, parameters: str, quantisation: str, context: int | None, place: Place
) -> Expected | None:
    """Return the prediction for a loaded model; None where too little is known of it.

    `parameters` and `quantisation` are Ollama's words, such as 7.6B and Q4_K_M.
    """
    try:
        work, note = _work(model_id, parameters, quantisation, context or _CONTEXT, place)
    except PlanError:
        # A quantisation that the planner does not know.
        return None
    if work is None:
        return None
    # What is held now may be this model; what others hold shows as a spilled model.
    reserve = sum(line.size_bytes for line in reserve_lines(replace(place, held_bytes=0)))
    speed = speed_of(work, place, reserve)
    band, first, load = speed.tokens_per_s, speed.first_token_s, speed.load_s
    if band is None:
        return None
    return Expected(
        band.value,
        band.low,
        band.high,
        first_ms=first.value * 1000 if first else None,
        load_s=load.value if load else None,
        where=speed.where,
        note=note,
    )


def _work(
    model_id: str, parameters: str, quantisation: str, context: int, place: Place
) -> tuple[Work | None, str]:
    """Return what a model moves, and how well that is known."""
    whole = _number(parameters)
    if whole and whole < LEAST_PARAMETERS:
        return None, ""
    known = find_model(model_id)
    if known and whole and abs(known.shape.parameters / whole - 1) < _ALIKE:
        size = known.files.get(normal(quantisation)) if quantisation else None
        if size:
            loaded = Loaded(
                name=model_id,
                shape=known.shape,
                weights_bytes=size,
                weights_source="the registry's size of the file",
                quantisation=quantisation,
                context=context,
            )
            return loaded.work(place), ""
    if not whole:
        return None, ""
    named = _ACTIVE.search(model_id)
    active = min(float(named[1]) * 1e9, whole) if named else whole
    return (
        estimated_work(whole, active, quantisation, context),
        "its dimensions are estimated from its number of parameters",
    )


def _number(text: str) -> float | None:
    found = _SIZE.fullmatch(text.strip())
    try:
        return float(found[1]) * _UNITS[found[2].upper()] if found else None
    except ValueError:
        return None

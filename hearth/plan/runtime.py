"""The budget while the house runs: what a stored plan means for the house's own models.

The role of the model server and the gateway get it as data; `hearth models` shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.catalogue.house import House, Model
from hearth.plan import PlanError
from hearth.plan.inventory import row_of, unlisted_models, wishes_of
from hearth.plan.machine import read_machine
from hearth.plan.models import CacheType, find_model
from hearth.plan.proposal import Plan, make_plan

# What a model takes where the planner knows nothing but the size of its file.
_LOADED_PART = 1.2
_FOREVER = "-1"


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """What one model takes while it is loaded, and why it must not be loaded; empty if it may."""

    needed_bytes: int
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeBudget:
    """The memory of the device that computes models, and how the server is to share it.

    `room_bytes` is what speech and the reserve leave. `keep_alive` is empty where the role decides.
    """

    device: str
    room_bytes: int
    slots: int = 1
    cache_type: CacheType = "f16"
    most_loaded: int = 1
    keep_alive: str = ""
    models: Mapping[str, ModelBudget] = field(default_factory=dict)


def runtime_budget(document: str, name: str, house: House) -> RuntimeBudget:
    """Return the budget of a stored plan, made for this house as it is now.

    Raises:
        PlanError: the document is no plan.
    """
    try:
        stored = json.loads(document)
        reserve, machine = stored["reserve_bytes"], json.dumps(stored["machine"])
        slots, cache_type = int(stored["slots"]), stored["cache_type"]
        wishes = wishes_of(house, slots=slots, cache_type=cache_type, reserve_bytes=reserve)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise PlanError(f"{name} is not a plan") from None
    plan = make_plan(read_machine(machine, name), wishes, unlisted_models(house))
    models = {one.name: _model_budget(plan, one, house) for one in _loaded_models(house)}
    sizes = [one.needed_bytes for one in models.values() if not one.refused]
    together = _together(sizes, plan.room_bytes)
    # Memory that others may need is given back; a set reserve leaves them theirs.
    forever = bool(sizes) and together == len(sizes) and reserve is not None
    return RuntimeBudget(
        device=plan.place.name,
        room_bytes=max(0, round(plan.room_bytes)),
        slots=slots,
        cache_type=cache_type,
        most_loaded=max(1, together),
        keep_alive=_FOREVER if forever else "",
        models=models,
    )


def _loaded_models(house: House) -> Iterable[Model]:
    """Return the models that a server of this house loads by itself."""
    used = {member for alias in house.aliases.values() for member in alias.members}
    return (one for one in house.models.values() if one.pulled and one.usable and one.name in used)


def _model_budget(plan: Plan, model: Model, house: House) -> ModelBudget:
    extra = {one.name: one for one in unlisted_models(house)}
    known = find_model(model.id) or extra.get(model.name)
    row = row_of(plan, model, known) if model.kind == "chat" else None
    if row is None:
        size = model.memory_bytes or round((model.download_bytes or 0) * _LOADED_PART)
        return ModelBudget(size)
    needed = round(row.needed_bytes)
    # What spills out of a card fills it to the last byte, also what speech grows into.
    starves = row.speed.where == "spilled" and any(one.on_card for one in plan.speech)
    if row.speed.where != "nowhere" and not starves:
        return ModelBudget(needed)
    speech = [one.what for one in plan.speech if one.on_card or not starves]
    others = ", ".join(["the reserve", *speech])
    gib, room = needed / 2**30, max(0.0, plan.room_bytes) / 2**30
    text = f"it needs {gib:.1f} GiB; of the memory of {plan.place.name}, {others} leave "
    return ModelBudget(needed, f"{text}{room:.1f} GiB")


def _together(sizes: Iterable[int], room: float) -> int:
    """Return how many models fit at once, the smallest first."""
    count = 0
    for size in sorted(sizes):
        room -= size
        if room < 0:
            break
        count += 1
    return count


def server_settings(
    budget: Mapping[str, Any], keep_alive: str, slots: int | str
) -> dict[str, str | int]:
    """Return what a model server is started with: `auto` values follow from the budget.

    `most_loaded` is 0, and `cache_type` empty, where the server decides.
    """
    auto = "auto"
    own = budget.get("keep_alive") or "15m"
    cache_type = str(budget.get("cache_type") or "f16")
    return {
        "keep_alive": own if keep_alive == auto else keep_alive,
        "slots": int(budget.get("slots") or 1) if slots == auto else int(slots),
        "cache_type": "" if cache_type == "f16" else cache_type,
        "most_loaded": int(budget.get("most_loaded") or 0),
    }

"""The budget while the house runs: what a stored plan means for the house's own models.

The role of the model server and the gateway get it as data; `hearth models` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.catalogue.house import House, Model
from hearth.plan.inventory import known_models_of, row_of
from hearth.plan.models import CacheType, KnownModel
from hearth.plan.proposal import Plan

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

    `room_bytes` is what speech and the reserve leave of it: of a card where it is `on_card`, which
    has a memory of its own. `keep_alive` is empty where the role decides.
    """

    device: str
    on_card: bool = False
    room_bytes: int
    slots: int = 1
    cache_type: CacheType = "f16"
    most_loaded: int = 1
    keep_alive: str = ""
    models: Mapping[str, ModelBudget] = field(default_factory=dict)


def runtime_budget(plan: Plan, house: House) -> RuntimeBudget:
    """Return the budget of a plan that was made for this house."""
    known = known_models_of(house)
    models = {one.name: _model_budget(plan, one, known.get(one.name)) for one in _loaded(house)}
    sizes = [one.needed_bytes for one in models.values() if not one.refused]
    together = _together(sizes, plan.room_bytes)
    # Memory that others may need is given back; a set reserve leaves them theirs.
    has_reserve = plan.wishes.reserve_bytes is not None
    forever = bool(sizes) and together == len(sizes) and has_reserve
    return RuntimeBudget(
        device=plan.place.name,
        on_card=plan.place.kind == "dedicated",
        room_bytes=max(0, round(plan.room_bytes)),
        slots=plan.wishes.slots,
        cache_type=plan.wishes.cache_type,
        most_loaded=max(1, together),
        keep_alive=_FOREVER if forever else "",
        models=models,
    )


def _loaded(house: House) -> Iterable[Model]:
    """Return the models that a server of this house loads by itself."""
    used = {member for alias in house.aliases.values() for member in alias.members}
    return (one for one in house.models.values() if one.pulled and one.usable and one.name in used)


def _model_budget(plan: Plan, model: Model, known: KnownModel | None) -> ModelBudget:
    row = row_of(plan, model, known)
    if row is None:
        size = model.memory_bytes or round((model.download_bytes or 0) * _LOADED_PART)
        return ModelBudget(size)
    needed = round(row.needed_bytes)
    # What spills out of a card fills it to the last byte, also what speech grows into.
    starves = row.speed.where == "spilled" and any(one.on_card for one in plan.speech)
    if row.speed.where != "nowhere" and not starves:
        # The rest of a model that spills is on the host.
        return ModelBudget(min(needed, max(0, round(plan.room_bytes))))
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

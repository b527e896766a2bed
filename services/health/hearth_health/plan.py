"""What `hearth plan` proposed last: the models that fit this machine, and how fast they answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .stored import StoredFile

# What a row's bar is drawn in.
WIDTH, HEIGHT = 160.0, 16.0
_WHERE = {
    "vram": "on the card",
    "shared": "in shared memory",
    "cpu": "on the processor",
    "spilled": "card and processor",
}
_MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model: what it is proposed for, its size, its speed, and the points of its bar."""

    name: str
    roles: str
    where: str
    needed_bytes: int
    tokens_per_s: float
    low: float
    high: float
    first_s: float
    width: float
    from_x: float
    to_x: float


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One line of a device's memory."""

    what: str
    size_bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The plan; without rows there is none. `problem` is why it cannot be read."""

    rows: Sequence[ModelRow] = ()
    machine: str = ""
    measured: str = ""
    device: str = ""
    free_bytes: int = 0
    budget: Sequence[BudgetRow] = ()
    problem: str = ""


def plan_file(path: Path) -> StoredFile[StoredPlan]:
    """Return the reader of the plan's file."""
    return StoredFile(
        path, _plan, lambda why: StoredPlan(problem=f"the plan cannot be read: {why}"), StoredPlan()
    )


def _plan(document: Mapping[str, Any]) -> StoredPlan:
    roles: dict[str, list[str]] = {}
    for choice in document["choices"]:
        roles.setdefault(choice["model"], []).append(choice["role"])
    models = [model for model in document["models"] if model["tokens_per_s"]]
    # The proposed ones first, then what else is fast and fits.
    models.sort(key=lambda one: (one["name"] not in roles, -float(one["tokens_per_s"]["value"])))
    shown = [model for model in models if model["name"] in roles or model["fits"]][:_MOST_ROWS]
    most = max((float(model["tokens_per_s"]["high"]) for model in shown), default=1.0)
    budget = document["budgets"][0]
    return StoredPlan(
        rows=[_row(model, roles, most) for model in shown],
        machine=str(document["machine"]["name"]),
        measured=str(document["machine"]["measured"]),
        device=str(budget["device"]),
        free_bytes=int(budget["free_bytes"]),
        budget=[
            BudgetRow(str(line["what"]), int(line["size_bytes"]), str(line["source"]))
            for line in budget["lines"]
        ],
    )


def _row(model: Mapping[str, Any], roles: Mapping[str, Sequence[str]], most: float) -> ModelRow:
    band, first = model["tokens_per_s"], model["first_token_s"]
    value, low, high = (float(band[key]) for key in ("value", "low", "high"))
    return ModelRow(
        name=str(model["name"]),
        roles=", ".join(roles.get(model["name"], ())),
        where=_WHERE.get(model["where"], "unknown"),
        needed_bytes=int(model["needed_bytes"]),
        tokens_per_s=value,
        low=low,
        high=high,
        first_s=float(first["value"]),
        width=round(WIDTH * value / most, 1),
        from_x=round(WIDTH * low / most, 1),
        to_x=round(WIDTH * high / most, 1),
    )

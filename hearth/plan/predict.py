"""The physics alone: a machine and models as YAML, predictions as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pydantic
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hearth.plan import PlanError
from hearth.plan.estimate import estimated_work
from hearth.plan.machine import GIB, Backend, MemoryKind, Place
from hearth.plan.speed import speed_of

_GB = 1e9
# A card's driver and desktop keep this of its memory; of a shared memory it is the system's share.
_CARD_RESERVE = 0.5 * GIB
_SYSTEM_RESERVE, _SYSTEM_SHARE = 2.0 * GIB, 1 / 8
# Where the file does not say: twice the card's memory, and two channels of DDR4.
_HOST_TIMES, _HOST_GB_PER_S = 2.0, 60.0
_CONTEXT = 4096
_MOST_ROWS = 10_000


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _number(value: Any) -> Any:
    # YAML reads `yes` as true, and pydantic would read that as 1.
    if isinstance(value, bool):
        raise ValueError("is not a number")
    return value


_Size = Annotated[
    float, BeforeValidator(_number), Field(gt=0, le=1e7, allow_inf_nan=False, strict=False)
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MachineFile(_Strict):
    """The file of a machine: sizes in GB as they are sold, rates in GB per second."""

    name: str
    backend: Annotated[Backend, BeforeValidator(_lower)]
    memory_gb: _Size
    memory_bandwidth_gb_s: _Size
    memory_kind: Annotated[MemoryKind, BeforeValidator(_lower)]
    host_memory_gb: _Size | None = None
    host_bandwidth_gb_s: _Size | None = None
    pcie_gb_s: _Size | None = None


class ModelRow(_Strict):
    """One model of the file: parameters in billions, `context` in tokens."""

    name: str
    total_params_b: _Size
    active_params_b: _Size
    quantisation: str
    context: Annotated[int, BeforeValidator(_number), Field(gt=0, le=2**31)] = _CONTEXT


def place_of(text: str, name: str = "the machine") -> tuple[Place, float]:
    """Return the place that a machine's YAML describes, and the bytes that are not for models.

    Raises:
        PlanError: the text describes no machine.
    """
    try:
        found = MachineFile.model_validate(_yaml(text, name))
    except pydantic.ValidationError as error:
        raise PlanError(f"{name}: {_first(error)}") from None
    memory = found.memory_gb * GIB
    if found.backend == "cpu" or found.memory_kind == "shared":
        reserve = min(_SYSTEM_RESERVE, memory * _SYSTEM_SHARE)
        host, host_rate = 0.0, 0.0
    else:
        reserve = _CARD_RESERVE
        host = (found.host_memory_gb or _HOST_TIMES * found.memory_gb) * GIB
        host -= min(_SYSTEM_RESERVE, host * _SYSTEM_SHARE)
        host_rate = (found.host_bandwidth_gb_s or _HOST_GB_PER_S) * _GB
    place = Place(
        name=found.name,
        backend=found.backend,
        kind="shared" if found.backend == "cpu" else found.memory_kind,
        memory_bytes=memory,
        bandwidth_bytes_per_s=found.memory_bandwidth_gb_s * _GB,
        host_memory_bytes=host,
        host_bandwidth_bytes_per_s=host_rate,
        bus_bytes_per_s=(found.pcie_gb_s or 0) * _GB,
    )
    return place, reserve


def predictions(
    machine: str, models: str, names: tuple[str, str] = ("", "")
) -> list[dict[str, Any]]:
    """Return a prediction, or an error, for each model in YAML; `names` are those of the files.

    A prediction has `name, fits, where, tokens_per_s, low, high`. `fits` is true where no part of
    the model leaves the machine's memory; the figures are None where it runs nowhere.

    Raises:
        PlanError: the machine is wrong, or the models are not a list.
    """
    place, reserve = place_of(machine, names[0] or "the machine")
    rows = _yaml(models, names[1] or "the models")
    if not isinstance(rows, list):
        raise PlanError(f"{names[1] or 'the models'}: not a list: write one `- name: …` per model")
    if len(rows) > _MOST_ROWS:
        raise PlanError(f"{names[1] or 'the models'}: more than {_MOST_ROWS} models")
    return [_answer(row, number, place, reserve) for number, row in enumerate(rows, 1)]


def _answer(row: Any, number: int, place: Place, reserve: float) -> dict[str, Any]:
    named = row.get("name") if isinstance(row, Mapping) else None
    name = named if isinstance(named, str) else f"row {number}"
    if not isinstance(row, Mapping):
        return {"name": name, "error": "not a mapping: write name, total_params_b and so on"}
    try:
        model = ModelRow.model_validate(dict(row))
        if model.active_params_b > model.total_params_b:
            raise PlanError(
                f"active_params_b {model.active_params_b:g} is more than total_params_b "
                f"{model.total_params_b:g}"
            )
        work = estimated_work(
            model.total_params_b * 1e9,
            model.active_params_b * 1e9,
            model.quantisation,
            model.context,
        )
    except pydantic.ValidationError as error:
        return {"name": name, "error": _first(error)}
    except PlanError as error:
        return {"name": name, "error": str(error)}
    speed = speed_of(work, place, reserve)
    band = speed.tokens_per_s
    return {
        "name": name,
        "fits": speed.where in ("vram", "shared", "cpu"),
        "where": speed.where,
        "tokens_per_s": round(band.value, 2) if band else None,
        "low": round(band.low, 2) if band else None,
        "high": round(band.high, 2) if band else None,
    }


def _yaml(text: str, name: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PlanError(f"{name}: not YAML: {first}") from None


def _first(error: pydantic.ValidationError) -> str:
    """Return the first problem as `field: what is wrong`."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"

"""Published speeds, and what the planner predicts for them."""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hearth.plan.predict import predictions

FOLDER = Path(__file__).parents[2] / "fixtures" / "plan"
# Rows that the constants were fitted on: all of measured_tps.csv but three, and the rows marked
# `fit`. These three contradict rows of the same machine, and no term of the formula can have both.
CONTRADICT = {
    ("qwen3.5-abliterated:35b-a3b", "Q4_K_M"),
    ("qwen3.5-abliterated:35b-a3b", "Q8_0"),
    ("qwen3.5:4b", "Q4_K_M"),
}


@dataclass(frozen=True, slots=True)
class Published:
    """One published row with its prediction; `use` is eleven, fit or check."""

    use: str
    machine: str
    inputs: tuple[str, ...]
    model: str
    measured: float
    prediction: dict[str, Any]
    source: str

    @property
    def error(self) -> float:
        """The relative error; positive where the prediction is too fast."""
        return float(self.prediction["tokens_per_s"]) / self.measured - 1


@functools.cache
def rows() -> tuple[Published, ...]:
    """Return all rows, with predictions by the command's own function."""
    eleven = _read("measured_tps.csv")
    return tuple(
        _predicted(row | {"use": row.get("use", "eleven")})
        for row in [*eleven, *_read("published.csv")]
    )


def _read(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _predicted(row: dict[str, str]) -> Published:
    numbers = ("memory_gb", "memory_bandwidth_gb_s", "host_bandwidth_gb_s")
    machine: dict[str, Any] = {key: float(row[key]) for key in numbers if row.get(key)}
    machine |= {"name": row["machine"], "backend": row["backend"]}
    machine["memory_kind"] = row["memory_kind"]
    if "host_bandwidth_gb_s" in machine:
        # Enough for every spilled row; its source gives 62 to 64 GB.
        machine["host_memory_gb"] = 64
    model: dict[str, Any] = {key: float(row[key]) for key in ("total_params_b", "active_params_b")}
    model |= {"name": row["model"], "quantisation": row["quantisation"], "context": 4096}
    (found,) = predictions(yaml.safe_dump(machine), yaml.safe_dump([model]))
    keys = ("total_params_b", "active_params_b", "quantisation", "memory_bandwidth_gb_s")
    return Published(
        use=row["use"],
        machine=row["machine"],
        inputs=tuple(row[key] for key in keys),
        model=row["model"],
        measured=float(row["tokens_per_s"]),
        prediction=found,
        source=row.get("source", "measured_tps.csv"),
    )

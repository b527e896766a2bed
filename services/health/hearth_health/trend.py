"""The figures of the last receipt beside those of earlier runs, from `trend.json` beside it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .snapshot import LIMIT_BYTES, bounded

# What a line of points is drawn in, with a margin for its end.
WIDTH, HEIGHT, MARGIN = 120.0, 28.0, 3.0
_STATES = {"worse": "warning", "better": "up", "usual": "up"}
_WORDS = {"worse": "worse than usual", "better": "better than usual", "usual": "as usual"}
_UNUSUAL = (_WORDS["worse"], _WORDS["better"])


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: its last value, what is usual here, and a line through its runs.

    `low` and `high` are None before enough runs; `line` has the points of an SVG, and `band` the
    top and the height of what is usual in it.
    """

    name: str
    unit: str
    last: float
    low: float | None
    high: float | None
    state: str
    word: str
    runs: int
    line: str
    end: tuple[float, float]
    band: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Trend:
    """The figures that were measured more than once, unusual ones first."""

    rows: Sequence[Row] = ()
    problem: str = ""


class TrendFile:
    """Reads the file when it has changed, within limits; never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._last = Trend()

    def read(self) -> Trend:
        """Return the trend as it was written last."""
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_mtime_ns, state.st_size)
            if seen != self._seen:
                self._seen = seen
                self._last = _read(self._path)
        except FileNotFoundError:
            self._seen, self._last = (), Trend()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or "it is not valid"
            self._last = Trend(problem=f"the figures of earlier runs cannot be read: {why}")
        return self._last


def _read(path: Path) -> Trend:
    with path.open("rb") as stream:
        text = stream.read(LIMIT_BYTES + 1)
    if len(text) > LIMIT_BYTES:
        raise ValueError("too long")
    figures = bounded(json.loads(text))["figures"]
    rows = [_row(one) for one in figures if len(one["points"]) > 1]
    # What is unusual comes first; the rest keeps its order.
    return Trend(sorted(rows, key=lambda row: row.word not in _UNUSUAL))


def _row(figure: Mapping[str, Any]) -> Row:
    values = [float(point["median"]) for point in figure["points"]]
    band, judgement = figure["band"], figure["judgement"]
    low, high = (float(band["low"]), float(band["high"])) if band else (None, None)
    least = min([*values, *([] if low is None else [low])])
    most = max([*values, *([] if high is None else [high])])
    room = HEIGHT - 2 * MARGIN

    def place(value: float) -> float:
        share = (value - least) / (most - least) if most > least else 0.5
        return round(HEIGHT - MARGIN - share * room, 1)

    step = (WIDTH - 2 * MARGIN) / (len(values) - 1)
    points = [(round(MARGIN + n * step, 1), place(value)) for n, value in enumerate(values)]
    between = None
    if low is not None and high is not None:
        between = place(high), round(place(low) - place(high), 1)
    return Row(
        name=str(figure["name"]),
        unit=str(figure["unit"]),
        last=values[-1],
        low=low,
        high=high,
        state=_STATES.get(judgement, "unknown"),
        word=_WORDS.get(judgement, "not judged"),
        runs=len(values),
        line=" ".join(f"{x},{y}" for x, y in points),
        end=points[-1],
        band=between,
    )

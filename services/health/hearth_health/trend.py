"""The figures of the last receipt beside those of earlier runs, from `trend.json` beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .stored import StoredFile

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


def trend_file(path: Path) -> StoredFile[Trend]:
    """Return the reader of the trend's file."""

    def failed(why: str) -> Trend:
        return Trend(problem=f"the figures of earlier runs cannot be read: {why}")

    return StoredFile(path, _trend, failed, Trend())


def _trend(document: Mapping[str, Any]) -> Trend:
    rows = [_row(one) for one in document["figures"] if len(one["points"]) > 1]
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

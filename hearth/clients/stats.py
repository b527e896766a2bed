"""The few statistics that the figures stand on, and the word error rate of transcripts."""

import random
import re
import statistics
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000
_SEPARATORS = re.compile(r"[^\w']+")
NOT_UNDERSTOOD = 0.9
"""A higher rate for clear speech means that the model does not know the language."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One measured quantity; `p95` is the value that 95 of 100 do not exceed."""

    n: int
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two medians of paired values with its 95 % interval, and their ratio."""

    pairs: int
    median: float
    low: float
    high: float
    ratio: float | None


def spread(values: Sequence[float]) -> Spread | None:
    """Return n, median and 95th percentile (nearest rank: a value that was seen), or None."""
    if not values:
        return None
    ordered = sorted(values)
    rank = -(-95 * len(ordered) // 100) - 1
    return Spread(len(ordered), statistics.median(ordered), ordered[max(0, rank)])


def paired_difference(
    pairs: Sequence[tuple[float, float]], resamples: int = RESAMPLES
) -> Difference | None:
    """Return median(second) - median(first) with a bootstrap over the pairs; None without pairs.

    Pairs are drawn, not single values: what slowed both calls of a pair is no difference.
    """
    if not pairs:
        return None
    # The same figures must give the same interval, so the draw is seeded; it guards no secret.
    draw = random.Random(20261121)  # noqa: S311
    drawn = sorted(_difference(draw.choices(pairs, k=len(pairs))) for _ in range(resamples))
    first = statistics.median(a for a, _ in pairs)
    second = statistics.median(b for _, b in pairs)
    return Difference(
        pairs=len(pairs),
        median=second - first,
        low=drawn[round(0.025 * (resamples - 1))],
        high=drawn[round(0.975 * (resamples - 1))],
        ratio=second / first if first > 0 else None,
    )


def _difference(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(b for _, b in pairs) - statistics.median(a for a, _ in pairs)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    normal = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")
    return [word for word in _SEPARATORS.sub(" ", normal).split() if word.strip("'_")]


def _edits(spoken: Sequence[str], written: Sequence[str]) -> int:
    """Return the least number of insertions, deletions and substitutions between both."""
    row = list(range(len(written) + 1))
    for n, word in enumerate(spoken, 1):
        above, row[0] = row[0], n
        for m, other in enumerate(written, 1):
            above, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, above + (word != other))
    return row[-1]


def error_rate(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return the edits in all (spoken, written) pairs over the spoken words; None without any."""
    words = [(words_of(spoken), words_of(written)) for spoken, written in pairs]
    total = sum(len(spoken) for spoken, _ in words)
    return sum(_edits(*pair) for pair in words) / total if total else None

"""How much of what was said was written: the word error rate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_NO_WORD = re.compile(r"[^\w']+")
HARDLY = 0.9
"""Whoever gets more than this wrong of clear speech does not hear badly: it does not hear."""


def words_of(text: str) -> list[str]:
    """Return the words of a text as they count: without capitals and stops."""
    plain = unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")
    return [word for word in _NO_WORD.sub(" ", plain).split() if word.strip("'_")]


def mistakes(said: Sequence[str], written: Sequence[str]) -> int:
    """Return how many words must be put in, left out or exchanged to get from one to the other."""
    row = list(range(len(written) + 1))
    for n, word in enumerate(said, 1):
        above, row[0] = row[0], n
        for m, other in enumerate(written, 1):
            above, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, above + (word != other))
    return row[-1]


def error_rate(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return the mistakes in all texts together over the words that were said; None without any.

    Each pair is what was said and what was written.
    """
    taken = [(words_of(said), words_of(written)) for said, written in pairs]
    said = sum(len(words) for words, _ in taken)
    return sum(mistakes(a, b) for a, b in taken) / said if said else None

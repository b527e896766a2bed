"""The word error rate of transcripts, over all words that were spoken."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SEPARATORS = re.compile(r"[^\w']+")
NOT_UNDERSTOOD = 0.9
"""A higher rate for clear speech means that the model does not know the language."""


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

"""Where a long speech is cut with the least harm."""

from collections.abc import Sequence

_WIDTH = 12
"""Blocks that are judged together: 12 of 8 ms are as long as a short pause."""


def quietest(levels: Sequence[float]) -> int:
    """Return the index in the middle of the quietest place; of equals, the last."""
    width = min(_WIDTH, len(levels))
    powers = [level * level for level in levels]
    total = least = sum(powers[:width])
    best = 0
    for begin in range(1, len(levels) - width + 1):
        total += powers[begin + width - 1] - powers[begin - 1]
        # Sums that are taken apart again differ in their last digits.
        if total <= least + 1e-12:
            best, least = begin, min(total, least)
    return best + width // 2

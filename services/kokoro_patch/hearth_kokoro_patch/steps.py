"""The steps of the patch, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hearth_kokoro_patch.errors import PatchError

STEPS = {
    "sentences": "make sound sentence by sentence, not all at once",
    "yielding": "hand each piece to the listener before the next is made",
    "threads": "compute beside the event loop, so that /health answers meanwhile",
    "player": "let the web player speak in browsers whose MediaSource takes no mp3 (Firefox)",
}
ALL = frozenset(STEPS)


def known(steps: Iterable[str]) -> frozenset[str]:
    """Return the steps as a set.

    Raises:
        PatchError: one of them does not exist; the line says which there are.
    """
    chosen = frozenset(steps)
    for name in sorted(chosen - ALL):
        near = difflib.get_close_matches(name, STEPS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(STEPS)}"
        raise PatchError(f"no step {name!r}: {hint}")
    return chosen


def ordered(steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps in the order in which people read about them."""
    chosen = frozenset(steps)
    return tuple(name for name in STEPS if name in chosen)

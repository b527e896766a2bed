"""Whether a machine hears fast enough to be talked to, and which model would if this one does not.

The one rule that a deploy stands on, so it needs nothing but Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_RTF = 0.5
"""Seconds of work for a second of speech. Above it, a talker waits longer than a person would."""

# What each size costs beside the others: published real-time factors on one processor.
_COST = {
    "tiny": 0.05,
    "base": 0.15,
    "distil-medium": 0.25,
    "small": 0.35,
    "medium": 0.80,
    "large-v3": 3.2,
}
_ENGLISH = ".en"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model keeps up here, and a line for a person that says what to do if not."""

    keeps_up: bool
    line: str


def judge(rtf: float, model: str, known: Iterable[str]) -> Verdict:
    """Judge a model by its measured real-time factor; `known` are the models one could take."""
    said = f"{model} takes {rtf:.2f} s for a second of speech"
    if rtf <= MOST_RTF:
        return Verdict(True, said)
    said += f", and more than {MOST_RTF:g} is heard as a wait"
    smaller = smaller_than(model, rtf, known)
    if smaller is None:
        return Verdict(False, f"{said}; there is no smaller model in models.yml that would do")
    write = f"transcribe: {{members: [{smaller}]}}"
    return Verdict(False, f"{said}: write `{write}` into inventory/local/aliases.yml")


def smaller_than(model: str, rtf: float, known: Iterable[str]) -> str | None:
    """Return the best model that would keep up here, or the fastest; None without a faster one.

    What hears English alone stands in for another such only, and nothing else for it.
    """
    own = _cost(model)
    if own is None:
        return None
    fit = [
        (cost, name)
        for name in known
        if (cost := _cost(name)) is not None and cost < own and _fits(name, model)
    ]
    enough = [one for one in fit if rtf * one[0] / own <= MOST_RTF]
    if enough:
        return max(enough)[1]
    return min(fit)[1] if fit else None


def _fits(name: str, model: str) -> bool:
    return name.endswith(_ENGLISH) == model.endswith(_ENGLISH)


def _cost(model: str) -> float | None:
    return _COST.get(model.removesuffix(_ENGLISH))

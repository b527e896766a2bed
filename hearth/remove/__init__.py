"""Remove one service, or the whole house, back to the machine as it was before."""

from collections.abc import Callable
from dataclasses import dataclass


class RemoveError(Exception):
    """One line for a person: what cannot be removed, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing to remove: its name for people, and the function that removes it.

    Every run looks for traces again and can remove one twice, so a killed removal is just repeated.
    """

    what: str
    remove: Callable[[], object]

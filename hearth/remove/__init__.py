"""Take away what Hearth made: one service, or the whole house, down to what was there before."""

from collections.abc import Callable
from dataclasses import dataclass


class RemoveError(Exception):
    """One line for a person: what cannot go, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that is there and shall not be: its name for people, and how it goes.

    Traces are looked for anew each time, so a removal that was killed is simply said again; each
    one can go twice.
    """

    what: str
    remove: Callable[[], object]

"""The attacks on the agents, the broker, the fetcher and the sandboxes, as data with their code.

Each attack is a function with what it tries and what stops it. Those that need no house run
against the real programs in one process (tests/unit/attacks); the others are tests of the lab.
`python -m tests.documents` writes docs/attacks.md from the same list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_Code = TypeVar("_Code", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: the group it belongs to, what it tries, what stops it, and its code."""

    group: str
    tried: str
    stopped: str
    code: Callable[..., Any]
    in_lab: bool

    @property
    def name(self) -> str:
        """The name of its code."""
        return self.code.__name__.removeprefix("test_")


@dataclass(frozen=True, slots=True)
class Task:
    """A useful task that must still succeed with all defences on."""

    does: str
    code: Callable[..., Any]
    in_lab: bool


ATTACKS: list[Attack] = []
TASKS: list[Task] = []


def attack(
    group: str, tried: str, *, stopped: str, in_lab: bool = False
) -> Callable[[_Code], _Code]:
    """Add a function to the attacks; it fails when the attack succeeds."""

    def add(code: _Code) -> _Code:
        made = Attack(group, tried, stopped, code, in_lab)
        # pytest may import a module under a name of its own.
        ATTACKS[:] = [one for one in ATTACKS if (one.name, one.tried) != (made.name, tried)]
        ATTACKS.append(made)
        return code

    return add


def task(does: str, *, in_lab: bool = False) -> Callable[[_Code], _Code]:
    """Add a function to the useful tasks; it fails when the task does."""

    def add(code: _Code) -> _Code:
        TASKS[:] = [one for one in TASKS if one.does != does]
        TASKS.append(Task(does, code, in_lab))
        return code

    return add

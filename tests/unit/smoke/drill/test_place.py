"""A drill ends what it has started, and nothing that another one has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hearth.machine import engine, systemd
from hearth.smoke.drill import place
from hearth.smoke.drill.plan import DrillError, Plan

NO_PLAN = Plan({}, (), ())
TAKEN = engine.Completed(1, "", "Failed to start transient service unit: already exists.\n")
IDLE = systemd.UnitState("inactive", "dead", "success", 0)


class Machine:
    """An instance that answers each command in turn, and remembers what it was told."""

    def __init__(self, *answers: engine.Completed) -> None:
        self._answers = list(answers)
        self.told: list[Sequence[str]] = []

    def execute(self, instance: str, argv: Sequence[str], **_: Any) -> engine.Completed:
        self.told.append(argv)
        return self._answers.pop(0) if self._answers else engine.Completed(0, "", "")

    def stopped(self) -> bool:
        return any(argv[:2] == ["/usr/bin/systemctl", "stop"] for argv in self.told)


def drilled(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "execute", machine.execute)
    monkeypatch.setattr(systemd, "unit_state", lambda *_: IDLE)
    monkeypatch.setattr(systemd, "journal", lambda *_: ["it ended"])
    with place.beside("litellm", "litellm.service", NO_PLAN, "key"):
        pass


def test_who_comes_second_does_not_end_the_drill_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(TAKEN)
    with pytest.raises(DrillError, match="already exists"):
        drilled(machine, monkeypatch)
    assert not machine.stopped()


def test_a_room_that_was_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    with pytest.raises(DrillError, match="it ended"):
        drilled(machine, monkeypatch)
    assert machine.stopped()

"""The chat's own process: what it holds, and how soon it is ready after a start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hearth.bench import chat as process
from hearth.catalogue.house import Service
from hearth.clients import ClientError, health
from hearth.clients.health import HealthResult
from hearth.machine import engine, outside
from tests.documents import shipped_house

STATUS = "Name:\tpython3\nVmPeak:\t 900000 kB\nVmRSS:\t 409600 kB\n"


@dataclass
class Machine:
    """An instance whose unit has these process numbers, one for each time that it is asked."""

    pids: list[int]
    answers: list[str]
    restarted: list[str] = field(default_factory=list)

    def execute(self, instance: str, argv: list[str], **more: Any) -> engine.Completed:
        assert argv[1] == "restart"
        self.restarted.append(argv[-1])
        return engine.Completed(0, "", "")

    def processes(self, system: str | None, unit: str) -> outside.Processes:
        pid = self.pids.pop(0) if len(self.pids) > 1 else self.pids[0]
        return outside.Processes(pids=(pid,) if pid else ())

    def check(self, service: Service) -> HealthResult:
        return HealthResult(self.answers.pop(0), 0.1)


@pytest.fixture
def service() -> Service:
    return shipped_house().services["open_webui"]


def house(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    monkeypatch.setattr(engine, "execute", machine.execute)
    monkeypatch.setattr(outside, "processes", machine.processes)
    monkeypatch.setattr(engine, "read_file", lambda instance, path: STATUS)
    monkeypatch.setattr(health, "check", machine.check)
    monkeypatch.setattr(process, "_POLL_S", 0)


def test_what_it_holds_is_read_and_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    machine = Machine([41], [])
    house(monkeypatch, machine)
    seen = process.inspect_process(service, restart=False)
    assert (seen.memory_bytes, seen.ready_s) == (400 * 2**20, None)
    assert machine.restarted == []


def test_only_the_new_process_counts_as_ready(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    # The old one would answer all the time.
    machine = Machine([41, 41, 0, 42], ["no answer", "health returns HTTP 503", "", ""])
    house(monkeypatch, machine)
    seen = process.inspect_process(service, restart=True)
    assert machine.restarted == [service.unit]
    assert seen.ready_s is not None
    assert machine.answers == [""]


def test_a_process_that_does_not_come_back_is_reported(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    slow = replace(service, health=replace(service.health, ready_s=0))
    house(monkeypatch, Machine([41], []))
    with pytest.raises(ClientError, match="was not ready 0 s after its start"):
        process.inspect_process(slow, restart=True)

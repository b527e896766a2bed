"""Each check of programs fires on a broken reading and is silent on a healthy one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from hearth.doctor import checks_services as checks
from hearth.doctor.finding import Context, Finding
from hearth.machine.engine import Completed, EngineError
from hearth.status import Row

KILLED = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=lxc.payload.kokoro-3,mems_allowed=0,"
    "oom_memcg=/lxc.payload.kokoro-3,task_memcg=/lxc.payload.kokoro-3/system.slice/kokoro.service,"
    "task=python3,pid=4711,uid=1000900\n"
)
PART_KILLED = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/system.slice/hearth-login.service,task=python,pid=12,uid=998\n"
)


def seen(found: Iterator[Finding]) -> list[tuple[str, str]]:
    return [(one.kind.name, one.about) for one in found]


def with_row(context: Context, row: Row) -> Context:
    rows = [row if one.name == row.name else one for one in context.rows()]
    return replace(context, rows=lambda: rows)


def printing(output: str) -> Callable[..., Completed]:
    def execute(instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        return Completed(0, output, "")

    return execute


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("stopped", "HEARTH-SERVICE-DOWN"),
        ("unknown", "HEARTH-SERVICE-DOWN"),
        ("loops", "HEARTH-SERVICE-LOOPS"),
        ("halted", "HEARTH-SERVICE-HUNG"),
        ("unhealthy", "HEARTH-SERVICE-UNHEALTHY"),
    ],
)
def test_a_program_that_does_not_work_is_one_finding(
    healthy: Context, state: str, wanted: str
) -> None:
    row = Row("ollama", "service", False, "inactive", int(healthy.now) - 90, state=state)
    (found,) = checks.programs(with_row(healthy, row))
    assert (found.kind.name, found.about) == (wanted, "ollama")
    # Its models suffer with it.
    assert "qwen3.5:4b" in found.hits
    assert found.evidence.startswith("inactive")


@pytest.mark.parametrize(
    ("name", "state", "wanted"),
    [
        ("kokoro", "silent", "HEARTH-SERVICE-HUNG"),
        ("kokoro", "slow", "HEARTH-SERVICE-SLOW"),
        ("login", "silent", "HEARTH-SERVICE-HUNG"),
    ],
)
def test_a_program_that_is_late_hangs_or_is_slow(
    healthy: Context, name: str, state: str, wanted: str
) -> None:
    row = Row(name, "part" if name == "login" else "service", False, "late", 0, state=state)
    assert seen(checks.programs(with_row(healthy, row))) == [(wanted, name)]


def test_a_stopped_process_of_a_part_is_found(healthy: Context) -> None:
    first, *_ = healthy.house.parts
    row = Row(first, "part", False, "its process was halted by a signal", 0, state="halted")
    assert seen(checks.programs(with_row(healthy, row))) == [("HEARTH-SERVICE-HUNG", first)]


def test_an_incus_that_does_not_answer_is_found(healthy: Context) -> None:
    def silent(path: str) -> Any:
        raise httpx.ReadTimeout("timed out")

    (found,) = checks.incus(replace(healthy, incus=silent))
    assert (found.kind.name, found.hits) == ("HEARTH-INCUS-DOWN", ("*",))


def test_programs_that_the_kernel_killed_are_found_with_their_service(healthy: Context) -> None:
    context = replace(healthy, execute=printing(KILLED + KILLED + PART_KILLED))
    found = {one.about: one for one in checks.out_of_memory(context)}
    assert found.keys() == {"kokoro", "login"}
    assert found["kokoro"].evidence == "the kernel killed python3 2 times in the last hour"


def test_what_a_sandbox_takes_is_no_finding(healthy: Context) -> None:
    text = KILLED.replace("lxc.payload.kokoro-3", "lxc.payload.sb-0a1b2c3d")
    context = replace(healthy, execute=printing(text + text))
    assert list(checks.out_of_memory(context)) == []


def test_a_journal_that_cannot_be_read_is_no_silence(healthy: Context) -> None:
    def broken(instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        raise EngineError("this machine: no journal")

    with pytest.raises(EngineError):
        list(checks.out_of_memory(replace(healthy, execute=broken)))


def test_a_need_that_is_not_answered_is_found(healthy: Context) -> None:
    row = Row("connections", "part", False, "litellm to ollama: a firewall rejects it", 0)
    assert seen(checks.connections(with_row(healthy, row))) == [("HEARTH-CONNECTIONS", "")]


@pytest.mark.parametrize(
    ("second", "wanted"),
    [("", []), ("a firewall rejects it", [("HEARTH-CONNECTIONS", "")])],
)
def test_one_missed_answer_along_a_need_is_no_finding(
    healthy: Context, monkeypatch: pytest.MonkeyPatch, second: str, wanted: list[Any]
) -> None:
    monkeypatch.setattr(checks, "_SOON_S", 0.0)
    monkeypatch.setattr(checks, "try_needs", lambda house: {house.flows[0]: second})
    row = Row("connections", "part", False, "litellm to ollama: silent", 0)
    rows = with_row(healthy, row).rows()

    def look() -> Sequence[Row]:
        time.sleep(0.05)
        return rows

    assert seen(checks.connections(replace(healthy, rows=look))) == wanted


def test_a_healthy_house_has_no_findings_about_programs(healthy: Context) -> None:
    for one in (
        checks.programs,
        checks.incus,
        checks.out_of_memory,
        checks.connections,
    ):
        assert list(one(healthy)) == []

"""The state of a unit is read whole, and read again if its output was lost."""

from typing import Any

import pytest

from hearth.machine import engine, systemd
from tests.unit.engine.instance import Instance


def test_a_unit_that_is_up(incus: Any) -> None:
    shown = b"ActiveState=active\nSubState=running\nResult=success\nStateChangeTimestamp=@17\n"
    incus(Instance(stdout=shown))
    unit = systemd.unit_state("ollama", "ollama.service")
    assert unit == systemd.UnitState("active", "running", "success", 17)
    assert unit.up


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [(0, 0, ""), (1, 203, "exit code 203"), (2, 9, "signal 9"), (3, 11, "signal 11")],
)
def test_a_unit_reports_its_restarts_and_its_result(
    incus: Any, code: int, status: int, expected: str
) -> None:
    numbers = f"NRestarts=4\nExecMainCode={code}\nExecMainStatus={status}\n"
    incus(Instance(stdout=f"ActiveState=activating\n{numbers}".encode()))
    unit = systemd.unit_state("ollama", "ollama.service")
    assert (unit.restarts, unit.exit) == (4, expected)


def test_the_last_output_skips_lines_without_content(incus: Any) -> None:
    incus(Instance(stdout=b"first\n\nno such file\n \ngiving up\n"))
    assert systemd.last_log_lines("ollama", "ollama.service") == "no such file; giving up"
    incus(Instance(stdout=b""))
    assert systemd.last_log_lines("ollama", "ollama.service") == ""


def test_a_read_is_repeated_if_its_output_was_lost(incus: Any) -> None:
    class Careless(Instance):
        def execute(self, argv: list[str], stdin: bytes) -> engine.Output:
            done = super().execute(argv, stdin)
            if len(self.calls) == 1:
                raise engine.OutputLost("ollama: stream 2 of a command broke off", 0)
            return done

    incus(Careless(stdout=b"ActiveState=active\n"))
    assert systemd.unit_state("ollama", "ollama.service").up
    # What may change something is not done twice.
    incus(Careless())
    with pytest.raises(engine.OutputLost, match="stream 2 of a command broke off"):
        engine.execute("ollama", ["/bin/x"], timeout=4)


def test_a_unit_that_never_ran_has_no_start_time(incus: Any) -> None:
    incus(Instance(stdout=b"ActiveState=inactive\nSubState=dead\nStateChangeTimestamp=\n"))
    unit = systemd.unit_state("ollama", "ollama.service")
    assert (unit.up, unit.since) == (False, 0)


def test_the_journal_includes_the_helpers_of_a_service() -> None:
    argv = systemd.journal_argv("ollama.service")
    assert argv[-4:] == ["-u", "ollama.service", "-u", "ollama-*.service"]

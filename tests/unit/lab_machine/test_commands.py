"""What a person sees: one line for an error, JSON for a program, exit codes."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lab_machine import command, model, steps
from tests.lab_machine.cli import app
from tests.lab_machine.command import LabError
from tests.lab_machine.model import Machine


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(model, "STATE", tmp_path)
    monkeypatch.setattr(steps, "_listeners", [])
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path


def test_machines_are_listed_for_programs() -> None:
    model.store(Machine("a", 1, 10, 5), ready=True)
    done = CliRunner().invoke(app, ["list", "--json"])
    assert done.exit_code == 0
    (row,) = json.loads(done.stdout)
    assert (row["name"], row["state"], row["address"]) == ("a", "stopped", "10.99.1.10")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["start", "nope"], 1, "'nope' does not exist"),
        (["shell", "nope", "--", "true"], 1, "'nope' does not exist"),
        (["create", "NOPE"], 1, "1 to 11 lower-case letters"),
        (["create", "a", "--size", "much"], 1, "such as 24G"),
        (["destroy"], 2, "name one machine"),
        (["destroy", "a", "--all"], 2, "name one machine"),
    ],
)
def test_an_invalid_call_is_one_line(words: list[str], code: int, error: str) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code
    assert error in done.output
    assert "Traceback" not in done.output


def test_only_root_may_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    done = CliRunner().invoke(app, ["start", "a"])
    assert (done.exit_code, "need root" in done.output) == (1, True)


def test_a_failure_is_the_last_line_that_a_program_printed() -> None:
    program = "import sys; sys.exit('first\\n\\nthe reason\\n')"
    with pytest.raises(LabError, match="exit 1: the reason") as caught:
        command.call([sys.executable, "-c", program])
    assert "\n" not in str(caught.value)


def test_a_program_that_does_not_end_is_ended() -> None:
    with pytest.raises(LabError, match=r"no end after 0\.1 s"):
        command.call(["sleep", "60"], timeout_s=0.1)


def test_a_missing_program_is_named() -> None:
    with pytest.raises(LabError, match="no-such-program: program not found"):
        command.call(["no-such-program"])


def test_steps_are_printed_with_their_time() -> None:
    steps_shown: list[tuple[str, float | None]] = []
    steps.listen(lambda text, seconds: steps_shown.append((text, seconds)))
    with steps.step("A"):
        steps.remark("b")
    with pytest.raises(LabError), steps.step("C"):
        raise LabError("broken")
    assert [text for text, _ in steps_shown] == ["b", "A"]
    assert steps_shown[1][1] is not None

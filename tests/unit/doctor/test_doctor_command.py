"""`hearth doctor`: exit codes, JSON, and healing that looks again."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hearth.cli import doctor as command
from hearth.cli.app import app
from hearth.doctor import from_lan, kinds
from hearth.doctor.finding import Finding
from hearth.doctor.fixes import FixError
from hearth.machine import runs
from tests.unit.doctor.conftest import HOUSE

DEAD = Finding(kinds.SERVICE_DOWN, "kokoro", "inactive for 90 s")
LOOPS = Finding(kinds.SERVICE_LOOPS, "litellm", "keeps exiting (9 times)")


class Doctor:
    """What the house has, and which fixes were carried out."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.fixed: list[str] = []
        self.heals = True
        self.looks = 0

    def look(self, project: object, only: str | None) -> tuple[Any, list[Finding]]:
        self.looks += 1
        return HOUSE, [one for one in self.found if only in (None, one.key)]

    def fix(self, finding: Finding, house: object) -> str:
        self.fixed.append(finding.key)
        if self.heals:
            self.found.remove(finding)
        return "restarted it"


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    known = Doctor()
    monkeypatch.setattr(command, "_look", known.look)
    monkeypatch.setattr(command, "fix", known.fix)
    monkeypatch.setattr(command, "_HEALED_S", 0)
    # Other tests of this process have threads.
    monkeypatch.setattr(command, "hanging", lambda: False)
    monkeypatch.setattr("hearth.cli.doctor.runs.active", lambda: None)
    monkeypatch.setattr("hearth.cli.doctor.os.geteuid", lambda: 0)
    return known


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words])


def test_a_house_without_findings_ends_with_0(doctor: Doctor) -> None:
    done = run("--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"good": True, "run": None, "findings": []}
    assert "no findings" in run().stdout


def test_findings_end_with_1_and_say_everything(doctor: Doctor) -> None:
    doctor.found = [DEAD]
    done = run("--json")
    assert done.exit_code == 1
    (found,) = json.loads(done.stdout)["findings"]
    assert found == DEAD.as_json()
    assert found["page"] == "/findings/HEARTH-SERVICE-DOWN"
    text = run().stdout
    for part in (DEAD.kind.name, DEAD.evidence, DEAD.kind.means, "can heal 1"):
        assert part in text


@pytest.mark.parametrize("words", [("--yes",), ("--from-lan", "--fix"), ("--nonsense",)])
def test_wrong_use_ends_with_2(doctor: Doctor, words: tuple[str, ...]) -> None:
    assert run(*words).exit_code == 2


def test_without_root_it_says_what_to_do(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.cli.doctor.os.geteuid", lambda: 1000)
    assert isinstance(run().exception, PermissionError)


def test_fix_says_what_it_will_do_does_it_and_looks_again(doctor: Doctor) -> None:
    doctor.found = [DEAD, LOOPS]
    done = run("--fix", "--yes")
    assert doctor.fixed == [DEAD.key]
    assert "will restart kokoro.service in the instance kokoro" in done.stderr
    assert f"healed: {DEAD.key}" in done.stderr
    assert done.exit_code == 1
    assert LOOPS.kind.name in done.stdout
    assert DEAD.kind.name not in done.stdout


def test_fix_reports_what_it_did_not_heal(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor.found, doctor.heals = [DEAD], False
    assert f"not healed: {DEAD.key}" in run("--fix", "--yes").stderr

    def fix(finding: Finding, house: object) -> str:
        raise FixError("it does not start")

    monkeypatch.setattr(command, "fix", fix)
    done = run("--fix", "--yes")
    assert "not done: it does not start" in done.stderr
    assert done.exit_code == 1


def test_fix_does_nothing_without_an_answer(doctor: Doctor) -> None:
    doctor.found = [DEAD]
    # Not a terminal: it cannot ask.
    assert run("--fix").exit_code == 2
    assert doctor.fixed == []


def test_nothing_is_healed_beside_a_run(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor.found = [DEAD]
    run_ = runs.this_run(["up"])
    monkeypatch.setattr("hearth.cli.doctor.runs.active", lambda: run_)
    done = run("--fix", "--yes")
    assert isinstance(done.exception, runs.BusyError)
    assert doctor.fixed == []
    # Looking is allowed, and says that a run is active.
    assert json.loads(run("--json").stdout)["run"] == str(run_)


def test_only_one_finding_is_healed_where_one_is_named(doctor: Doctor) -> None:
    other = Finding(kinds.SERVICE_DOWN, "whisper", "inactive")
    doctor.found = [DEAD, other]
    run("--fix", "--yes", "--only", other.key)
    assert doctor.fixed == [other.key]


def test_what_was_seen_a_moment_ago_is_not_looked_for_again(doctor: Doctor) -> None:
    doctor.found = [DEAD]
    done = run("--fix", "--yes", "--only", DEAD.key, "--seen", DEAD.evidence)
    assert done.exit_code == 0
    assert doctor.fixed == [DEAD.key]
    # Only for the result.
    assert doctor.looks == 1
    assert run("--fix", "--yes", "--only", "HEARTH-NONE:x", "--seen", "y").exit_code == 2


@pytest.mark.parametrize("good", [True, False])
def test_from_the_lan_it_says_from_where_and_what_is_seen(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, good: bool
) -> None:
    row = from_lan.LanRow("DNS server 10.0.0.1", good, "answers chat.lan with 10.0.0.9")
    monkeypatch.setattr(from_lan, "look", lambda _: from_lan.Seen("this computer (desk)", (row,)))
    done = run("--from-lan")
    assert done.exit_code == (0 if good else 1)
    assert "seen from this computer (desk)" in done.stdout
    assert "answers chat.lan with 10.0.0.9" in done.stdout
    assert json.loads(run("--from-lan", "--json").stdout)["good"] is good

"""`hearth receipt`: what people and programs see of kept receipts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hearth.cli import receipt as command
from hearth.smoke import history
from hearth.smoke.history import write
from hearth.smoke.receipt import Figure, MeasuredMachine, Receipt, Verdict

RECEIPT = Receipt(
    house="house",
    made="2026-11-21T12:00:00+00:00",
    seconds=61.2,
    hearth="abc1234",
    machine=MeasuredMachine("box", "Debian 13.2", "6.12", "Ryzen 7", 8, 16 * 2**30, []),
    accelerator={},
    versions={"ollama": "0.35.0"},
    addresses=[],
    figures=[Figure("first sound", "ms", 5, 300, 320)],
    verdicts=[Verdict("an alias answers", "fast", "passed", "", 0.1)],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the receipts of six like runs and of a slow one."""
    monkeypatch.setattr(command, "read_history", lambda: history.read_history(tmp_path))
    for day in range(21, 27):
        write(replace(RECEIPT, made=f"2026-11-{day}T12:00:00+00:00"), tmp_path)
    slow = [Figure("first sound", "ms", 5, 900, 950)]
    made, versions = "2026-11-27T12:00:00+00:00", {"ollama": "0.36.0"}
    write(replace(RECEIPT, made=made, figures=slow, versions=versions), tmp_path)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(command.app, list(words), env={"COLUMNS": "200"})


@pytest.mark.usefixtures("folder")
def test_receipts_are_listed() -> None:
    shown = call()
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("1 passed") == 7
    rows = json.loads(call("--json").stdout)
    assert [row["name"] for row in rows][-1] == "20261127T120000Z"
    assert rows[-1]["good"] is True


def test_a_broken_one_is_named(folder: Path) -> None:
    (folder / "history" / "20261125T120000Z.json").write_text('{"house": ')
    shown = call("--json")
    assert "skipped: " in shown.stderr
    assert "20261125T120000Z.json: no readable receipt: " in shown.stderr
    assert len(json.loads(shown.stdout)) == 6


@pytest.mark.usefixtures("folder")
def test_one_is_shown_with_what_is_unusual_of_it() -> None:
    shown = call("show")
    assert "worse than usual: first sound: 900 ms now (n=5); usual here is 300 ms" in shown.stdout
    assert "worse than usual" not in call("show", "last-1").stdout
    assert json.loads(call("show", "last", "--json").stdout)["figures"][0]["median"] == 900


@pytest.mark.usefixtures("folder")
def test_a_difference_beyond_the_noise_is_an_exit_code() -> None:
    slower = call("diff")
    assert slower.exit_code == 1, slower.output
    for text in ("first sound", "300 (n=5)", "900 (n=5)", "worse", "ollama", "0.35.0", "0.36.0"):
        assert text in slower.stdout, slower.stdout
    found = json.loads(call("diff", "last-1", "last", "--json").stdout)
    assert found["worse"] == 1
    assert found["versions"] == {"ollama": ["0.35.0", "0.36.0"]}
    same = call("diff", "last-2", "last-1")
    assert same.exit_code == 0
    assert "0 worse, 0 better, 1 as before within the noise" in same.stdout
    assert "first sound" not in same.stdout
    assert "first sound" in call("diff", "last-2", "last-1", "--all").stdout

"""The ledger counts what was not run, names it, and never calls it passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import run_tests
from scripts.run_tests import Counts, Part, ledger, run_pytest

TESTS = """
import pytest

def test_good():
    pass

def test_needs_a_card():
    pytest.skip("NOT RUN: it needs a card")

@pytest.mark.skip(reason="not here")
def test_marked():
    pass
"""


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "LOGS", tmp_path / "logs")


def part(tmp_path: Path, tests: str) -> Part:
    (tmp_path / "test_some.py").write_text(tests)
    return run_pytest("some", 1, str(tmp_path / "test_some.py"), "-p", "no:cacheprovider")


def test_skipped_parts_are_named_and_not_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "OPTIONAL", ("test_needs_a_card", "test_marked"))
    found = part(tmp_path, TESTS)
    assert (found.counts.passed, found.counts.failed, len(found.counts.not_run)) == (1, 0, 2)
    assert ledger([found])
    *_, above, _, last = capsys.readouterr().out.splitlines()
    assert last == "1 passed, 0 failed, 2 not run"
    assert above.endswith("test_some.test_marked: not here")
    assert "test_some.test_needs_a_card: NOT RUN: it needs a card" in found.counts.not_run[0]


def test_skipping_a_required_part_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "OPTIONAL", ("test_needs_a_card",))
    assert not ledger([part(tmp_path, TESTS)])
    output = capsys.readouterr().out
    assert "May not be left out\n" in output
    assert output.endswith("1 passed, 1 failed, 2 not run\n")


@pytest.mark.parametrize(
    ("tests", "passed", "failed"),
    [
        (f"{TESTS}\ndef test_bad():\n    assert False\n", 1, 1),
        ("import nowhere_at_all\n", 0, 1),
        ("", 0, 1),
    ],
)
def test_failed_and_missing_parts_are_not_passed(
    tmp_path: Path, tests: str, passed: int, failed: int
) -> None:
    found = part(tmp_path, tests)
    assert (found.counts.passed, found.counts.failed) == (passed, failed)
    assert not ledger([found])


def test_parts_are_summed_and_slow_ones_cause_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "OPTIONAL", ("a", "b"))
    lab = Part("lab", 3, 300, Counts(0, 0), 1.0, (Part("slow", 3, 300, Counts(0, 0)),))
    parts = [
        Part("one", 1, 90.0, Counts(3, 0, ("a: why",)), slowness=1.5),
        Part("two", 2, 30.0, Counts(2, 1, ("b: why",))),
        lab,
    ]
    assert not ledger(parts)
    output = capsys.readouterr().out
    assert "1.5 min of  1.0 x 1.5  one" in output
    assert "0.5 min of  2.0 x 1.0  two\n" in output
    assert "5.0 min of  3.0 x 1.0    slow\n" in output
    assert "Warning: over 1.5 times their minutes: slow\n" in output
    assert output.endswith("Not run\n  a: why\n  b: why\n\n5 passed, 1 failed, 2 not run\n")


def test_a_part_without_time_is_named_and_counted_as_not_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = run_tests.not_started("model", 2.4, 1.0)
    assert ledger([Part("unit", 1, 60, Counts(4, 0)), late])
    output = capsys.readouterr().out
    assert "model: not started: it needs 2.4 min and 1.0 min are left" in output
    assert output.endswith("4 passed, 0 failed, 1 not run\n")


def test_what_the_core_leaves_out_exists() -> None:
    places = (*run_tests.MODELS, *run_tests.ONE_START, *run_tests.WHOLE_SERVERS)
    assert [place for place in places if not (run_tests.ROOT / place).exists()] == []


def test_a_part_of_the_lab_that_was_not_started_is_one_line() -> None:
    lines = [f"tests.lab.test_lan.test_{n}[a.test_b]: not started: 7 min" for n in range(3)]
    other = "tests.unit.test_a.test_b: no card"
    assert run_tests.by_part([*lines, other]) == [
        "  tests.lab.test_lan: not started: 7 min (3 tests)",
        f"  {other}",
    ]

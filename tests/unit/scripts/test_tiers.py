"""Each command runs its parts: what is long leaves `--all` and runs with `--long`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import options, run_tests
from scripts.run_tests import LONG_UNIT, MODELS, Counts, Part

Runs = dict[str, tuple[str, ...]]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """The parts that were run, each with its options for pytest."""
    found: Runs = {}

    def run(name: str, minutes: float, *options: str) -> Part:
        found[name] = options
        return Part(name, minutes, 1, Counts(1, 0))

    monkeypatch.setattr(run_tests, "LOGS", tmp_path)
    monkeypatch.setattr(run_tests, "run_pytest", run)
    monkeypatch.setattr(run_tests, "run_gates", lambda: run("gates", 1))
    monkeypatch.setattr(options, "lab_preflight", list)
    monkeypatch.setattr(run_tests, "calibrate", lambda: 1.0)
    return found


def run_with(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["scripts/test", *words])
    return run_tests.main()


def test_all_runs_everything_that_is_not_long(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(monkeypatch, "--all") == 0
    assert list(runs) == ["gates", "unit", "model", "lab"]
    assert runs["model"] == (*MODELS, "-m", "not long")
    assert "--tier=all" in runs["lab"]


def test_long_runs_what_is_long_with_a_model_and_in_a_house(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_with(monkeypatch, "--long") == 0
    assert list(runs) == ["model", "lab"]
    assert runs["model"] == (*MODELS, *LONG_UNIT, "-m", "long")
    assert "--tier=long" in runs["lab"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["gates", "unit", "model", "lab"]),
        (["-k", "text"], ["unit"]),
        (["--lab", "-k", "text"], ["lab"]),
        (["--long", "-k", "text"], ["lab"]),
        (["--long", "--model"], ["model"]),
        (["--long", "--lab"], ["lab"]),
    ],
)
def test_a_named_part_runs_alone(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, words: list[str], parts: list[str]
) -> None:
    assert run_with(monkeypatch, *words) == 0
    assert list(runs) == parts


def test_a_machine_that_is_too_small_is_reported_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "MEMORY_BYTES", 1 << 60)
    monkeypatch.setattr(sys, "argv", ["scripts/test", "--all"])
    with pytest.raises(SystemExit, match="2"):
        options.read_options()
    assert "GiB of memory; the lab needs 1073741824 GiB" in capsys.readouterr().err
    # scripts/test runs it with Debian's Python, which has none of the project's libraries.
    argv = ["/usr/bin/python3", "-I", "-B", options.__file__, "--unit"]
    subprocess.run(argv, check=True, timeout=30)

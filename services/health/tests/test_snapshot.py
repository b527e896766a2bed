"""What the watcher wrote is read within limits, and is worth nothing when it is old."""

import json
from pathlib import Path
from typing import Any

import pytest

from hearth_health.snapshot import ITEMS, LIMIT_BYTES, STALE_S, TEXT, SnapshotFile, bounded

from .sample import snapshot

NOW = 1000.0


def read(path: Path, now: float = NOW) -> Any:
    return SnapshotFile(path, lambda: now).read()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot(made_boot_s=NOW)))
    return path


def test_a_fresh_snapshot_has_no_problem(file: Path) -> None:
    found = read(file)
    assert found.problem == ""
    assert found.data["rows"][0]["name"] == "ollama"


@pytest.mark.parametrize("age", [STALE_S + 0.1, -0.1])
def test_an_old_one_says_that_the_watcher_does_not_run_and_keeps_what_was_known(
    file: Path, age: float
) -> None:
    # A time before this start of the machine can only be of another one.
    found = read(file, NOW + age)
    assert "watcher does not run" in found.problem
    assert found.data["rows"]


def test_its_age_is_that_of_the_machine_not_of_the_clock(file: Path) -> None:
    file.write_text(json.dumps(snapshot(made=0.0, made_boot_s=NOW)))
    assert read(file).problem == ""


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"made_boot_s": "x"}', "[" * 100_000, "\udcff", "1e999"]
)
def test_one_that_is_broken_is_a_problem_and_no_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "cannot be read" in read(path).problem


def test_none_is_a_problem(tmp_path: Path) -> None:
    assert "written nothing" in read(tmp_path / "snapshot.json").problem


def test_one_that_is_too_long_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"made_boot_s": NOW, "x": "y" * LIMIT_BYTES}))
    assert "cannot be read" in read(path).problem


def test_a_change_is_seen_and_the_same_file_is_not_parsed_again(file: Path) -> None:
    found = SnapshotFile(file, lambda: NOW)
    first = found.read()
    assert found.read().data is first.data
    new = file.with_suffix(".new")
    new.write_text(json.dumps(snapshot(made_boot_s=NOW, broken=True)))
    new.replace(file)
    assert found.read().data["findings"] != first.data["findings"]


def test_texts_lists_and_depth_are_cut() -> None:
    deep: Any = "x"
    for _ in range(20):
        deep = [deep]
    found = bounded({"label": "a" * 2**20, "list": list(range(10_000)), "deep": deep})
    assert len(found["label"]) == TEXT
    assert found["label"].endswith("…")
    assert len(found["list"]) == ITEMS
    assert json.dumps(found["deep"]).count("[") < 10
    assert bounded([float("nan"), float("inf"), 1.5, True, None]) == [None, None, 1.5, True, None]

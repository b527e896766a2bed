"""The audit log: whole lines from several programs, bounded, and never quietly lost."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from hearth import audit


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_the_time_the_event_and_short_values(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    deep: object = "x"
    for _ in range(50):
        deep = [deep]
    audit.record(
        "call",
        {"text": "a\n\x1b[31m" + "b" * 500, "many": list(range(1000)), "deep": deep, "n": 1.5},
        log,
    )
    (line,) = lines(log)
    assert line["event"] == "call"
    assert str(line["at"]).endswith("+00:00")
    assert str(line["text"]).endswith("… (507 characters)")
    assert len(str(line["text"])) < 230
    assert len(line["many"]) == 41
    # A terminal that shows the file is safe.
    assert "\x1b" not in log.read_text()
    assert len(log.read_text()) < 2000
    assert log.stat().st_mode & 0o777 == 0o600


def _write(path: Path, number: int, count: int) -> None:
    for index in range(count):
        audit.record("call", {"from": number, "index": index, "text": "x" * 150}, path)


def test_several_programs_write_whole_lines_while_the_log_rotates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "ROTATE_BYTES", 40_000)
    log = tmp_path / "audit.jsonl"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write, args=(log, number, 150)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    found = [line for path in files for line in lines(path)]
    assert sorted((line["from"], line["index"]) for line in found) == [
        (number, index) for number in range(4) for index in range(150)
    ]


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROTATE_BYTES", 500)
    log = tmp_path / "audit.jsonl"
    for index in range(100):
        audit.record("call", {"index": index}, log)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", *(f"audit.jsonl.{number}" for number in range(1, 5))]
    order = [line["index"] for name in [*names[:0:-1], names[0]] for line in lines(tmp_path / name)]
    assert order == list(range(order[0], 100))


def test_a_log_that_cannot_be_written_is_an_error_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "audit.jsonl"):
        with pytest.raises(audit.AuditError, match="cannot be written"):
            audit.check(path)
        with pytest.raises(audit.AuditError, match="cannot be written"):
            audit.record("call", {}, path)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(audit.AuditError):
        audit.record("call", {}, tmp_path / "audit.jsonl")
    assert not (tmp_path / "elsewhere").exists()

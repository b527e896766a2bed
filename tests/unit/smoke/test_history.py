"""Receipts are kept, bounded and found by name; a broken one is named, and none is lost."""

import errno
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hearth.smoke import history
from hearth.smoke.history import as_text, find, read_history, write
from hearth.smoke.receipt import Figure, MeasuredMachine, Receipt, Verdict, VerifyError

MACHINE = MeasuredMachine("box", "Debian 13.2", "6.12", "Ryzen 7", 8, 16 * 2**30, [])
START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def receipt(hour: int, first_ms: float = 300.0) -> Receipt:
    return Receipt(
        house="house",
        made=(START + timedelta(hours=hour)).isoformat(timespec="seconds"),
        seconds=60,
        hearth="abc1234",
        machine=MACHINE,
        accelerator={},
        versions={"ollama": "0.35.0"},
        addresses=[],
        figures=[Figure("first sound", "ms", 5, first_ms, first_ms * 1.1)],
        verdicts=[Verdict("health is as expected", "ollama", "passed", "", 0.1)],
    )


def names(folder: Path) -> list[str]:
    return [one.name for one in read_history(folder).kept]


def test_each_run_is_kept_and_comes_back_as_it_was(tmp_path: Path) -> None:
    runs = [receipt(hour) for hour in range(3)]
    for one in runs:
        write(one, tmp_path)
    assert read_history(tmp_path).receipts == runs
    assert names(tmp_path) == ["20261121T120000Z", "20261121T130000Z", "20261121T140000Z"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "history").iterdir()} == {0o644}


def test_the_oldest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 4)
    for hour in range(7):
        write(receipt(hour), tmp_path)
    assert [name[9:11] for name in names(tmp_path)] == ["15", "16", "17", "18"]
    monkeypatch.setattr(history, "MOST_BYTES", 2 * len(as_text(receipt(7))))
    write(receipt(7), tmp_path)
    assert [name[9:11] for name in names(tmp_path)] == ["18", "19"]


def test_the_receipt_of_an_older_hearth_is_kept(tmp_path: Path) -> None:
    old = json.loads(as_text(receipt(0)))
    for name in ("form", "digests"):
        del old[name]
    for name in ("drivers", "memory_bandwidth"):
        del old["machine"][name]
    del old["figures"][0]["conditions"]
    (tmp_path / "receipt.json").write_text(json.dumps(old))
    assert read_history(tmp_path).receipts == [receipt(0)]
    write(receipt(1), tmp_path)
    assert read_history(tmp_path).receipts == [receipt(0), receipt(1)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (as_text(receipt(9))[:400], "no readable receipt: Invalid JSON"),
        (b"", "no readable receipt: Invalid JSON"),
        (b"\xff\xfe", "no readable receipt: "),
        (b"[]", "no readable receipt: "),
        (b'{"figures": []}', "no readable receipt: house: Field required"),
        (as_text(replace(receipt(9), made="soon")), "its time is 'soon'"),
        (b" " * (history.ONE_BYTES + 1), "too long for a receipt"),
    ],
)
def test_a_broken_file_is_named_and_skipped(content: bytes, why: str, tmp_path: Path) -> None:
    write(receipt(0), tmp_path)
    path = tmp_path / "history" / "20261121T210000Z.json"
    path.write_bytes(content)
    found = read_history(tmp_path)
    assert found.receipts == [receipt(0)]
    (problem,) = found.problems
    assert problem.startswith(str(path)) or "its time is" in problem
    assert why in problem
    assert "\n" not in problem
    write(receipt(10), tmp_path)
    assert read_history(tmp_path).receipts == [receipt(0), receipt(10)]


def test_what_is_no_receipt_is_left_alone(tmp_path: Path) -> None:
    write(receipt(0), tmp_path)
    (tmp_path / "history" / "notes.json").write_text("mine")
    for hour in range(1, 3):
        write(receipt(hour), tmp_path)
    assert read_history(tmp_path).problems == []
    assert (tmp_path / "history" / "notes.json").read_text() == "mine"


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(receipt(0), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}

    def full(path: Path, content: bytes) -> None:
        path.with_name(f".{path.name}.new").write_bytes(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(history, "write_atomic", full)
        with pytest.raises(VerifyError, match=r"No space left on device: make room on the disk"):
            write(receipt(1), tmp_path)
    assert {path: path.read_bytes() for path in before} == before
    assert read_history(tmp_path) == history.History(
        [history.Kept("20261121T120000Z", tmp_path / "history/20261121T120000Z.json", receipt(0))],
        [],
    )
    write(receipt(2), tmp_path)
    assert not [*(tmp_path / "history").glob(".*")], "the piece is gone"


def test_the_last_receipt_needs_no_history(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("in the way")
    with pytest.raises(VerifyError, match="cannot write the receipt: "):
        write(receipt(0), tmp_path)
    assert read_history(tmp_path).receipts == [receipt(0)]


def test_a_receipt_is_found_by_its_place_its_name_and_its_path(tmp_path: Path) -> None:
    for hour in (0, 1, 24):
        write(receipt(hour), tmp_path)
    kept = read_history(tmp_path)
    assert find(kept, "last").name == "20261122T120000Z"
    assert find(kept, "last-1").name == "20261121T130000Z"
    assert find(kept, "20261122").name == "20261122T120000Z"
    copied = tmp_path / "other-machine.json"
    copied.write_bytes(as_text(receipt(5)))
    assert find(kept, str(copied)).receipt == receipt(5)
    for which, why in (
        ("last-3", "only 3 receipts are kept"),
        ("20261121", "2 receipts have a name that starts with 20261121"),
        ("2025", "no receipt has a name that starts with 2025"),
        (str(tmp_path / "gone.json"), "No such file"),
    ):
        with pytest.raises(VerifyError, match=why):
            find(kept, which)
    with pytest.raises(VerifyError, match="run `hearth verify`"):
        find(history.History(), "last")


def test_the_trend_is_written_beside_the_receipt(tmp_path: Path) -> None:
    for hour in range(7):
        write(receipt(hour, 300 + hour), tmp_path)
    write(receipt(8, 900), tmp_path)
    document = json.loads((tmp_path / "trend.json").read_text())
    (figure,) = document["figures"]
    assert document["made"] == receipt(8).made
    assert [point["median"] for point in figure["points"]] == [
        300,
        301,
        302,
        303,
        304,
        305,
        306,
        900,
    ]
    assert (figure["band"]["n"], figure["band"]["median"]) == (7, 303)
    assert figure["judgement"] == "worse"

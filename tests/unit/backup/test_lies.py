"""An instance's output is validated, too: a broken instance damages no backup silently."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hearth.backup import BackupError
from hearth.backup.agent import Child
from hearth.backup.create import create_backup
from hearth.backup.restore import read_backup, restore_backup
from tests.unit.backup.local import KEY, House, LocalFolder, place, subject

REPORT = json.dumps({"began": 0.0, "integrity": {}, "damaged": {}, "left_out": []}).encode()


class ScriptedChild(io.BytesIO):
    """A program that prints these bytes and succeeds."""

    def wait(self) -> None:
        """Succeed."""

    def write(self, data: Any) -> int:
        """Read nothing."""
        return len(data)

    def close(self) -> None:
        """Stay open: only its input ends."""


def printing(folder: Path, *members: tuple[tarfile.TarInfo, bytes], cut: int = 0) -> LocalFolder:
    """A folder whose instance prints a tar with these members."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    text = whole.getvalue()[: -cut or None]

    @contextlib.contextmanager
    def run(instance: str, argv: Sequence[str]) -> Iterator[Child]:
        yield cast("Child", ScriptedChild(text))

    return replace(place(folder), runner=run)


def named(name: str, **more: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    return info


def test_its_files_become_a_backup_without_owners_and_special_modes(tmp_path: Path) -> None:
    file = (named("data/a", mode=0o6755, uid=0, uname="root"), b"1")
    folder = printing(tmp_path, file, (named("report.json"), REPORT))
    made = create_backup(subject(folder), tmp_path / "to", lambda text: None)
    entries = read_backup(made.path, KEY).manifest.entries
    assert list(entries) == ["hearth.json", "vault.json", "data/open_webui/0/a"]


@pytest.mark.parametrize(
    "name",
    ["data/../x", "data/..", "data//etc/passwd", "data/.", "/etc/passwd", "x", "data/a/../b"],
)
def test_a_name_that_leads_outside_makes_no_backup(tmp_path: Path, name: str) -> None:
    folder = printing(tmp_path, (named(name), b"1"), (named("report.json"), REPORT))
    with pytest.raises(BackupError, match="which is not a valid path in"):
        create_backup(subject(folder), tmp_path / "to", lambda text: None)
    assert list((tmp_path / "to").iterdir()) == []


def _files(*names: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(named(name), b"1") for name in names]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([(named("data/l", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b"")], "is a link or"),
        ([(named("data/l", type=tarfile.LNKTYPE, linkname="a"), b"1" * 9000)], "is a link or"),
        (_files("data/a", "data/a"), "a is in the backup twice"),
        (_files("data/a", "data/a/b"), "a/b is a file here and a folder there"),
        (_files("data/a/b", "data/a"), "a is a file here and a folder there"),
        (_files("data/" + "x" * 256), "is longer than a path may be"),
        (_files("data/" + "é" * 128), "is longer than a path may be"),
        (_files("data/" + "x/" * 2000 + "x"), "is longer than a path may be"),
        (_files("data/.hearth-restore/new/a"), "is not a valid path in a folder"),
    ],
)
def test_files_that_could_not_be_restored_make_no_backup(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], reason: str
) -> None:
    folder = printing(tmp_path, *members, (named("report.json"), REPORT))
    with pytest.raises(BackupError, match=reason):
        create_backup(subject(folder), tmp_path / "to", lambda text: None)
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [{"integrity": {"b": "ok"}}, {"began": "now"}, {"left_out": [1]}, {"damaged": {"a": None}}],
)
def test_a_report_of_something_else_makes_no_backup(
    tmp_path: Path, change: dict[str, object]
) -> None:
    report = json.dumps({**json.loads(REPORT), **change}).encode()
    folder = printing(tmp_path, (named("data/a"), b"1"), (named("report.json"), report))
    with pytest.raises(BackupError) as refused:
        create_backup(subject(folder), tmp_path / "to", lambda text: None)
    assert "\n" not in str(refused.value)
    assert list((tmp_path / "to").iterdir()) == []


def test_a_time_that_no_disk_can_store_stops_no_restore(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    late = (named("data/a", mtime=1e30), b"1")
    made = create_backup(
        subject(printing(data, late, (named("report.json"), REPORT))),
        tmp_path / "to",
        lambda text: None,
    )
    house = House(tmp_path, [place(data)])
    restore_backup(
        made.path, KEY, read_backup(made.path, KEY), house.target(), False, lambda text: None
    )
    assert (data / "a").read_text() == "1"


def test_more_files_than_a_reader_would_take_make_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.backup.archive._MANIFEST_BYTES", 100)
    folder = printing(tmp_path, (named("data/a"), b"1"), (named("report.json"), REPORT))
    with pytest.raises(BackupError, match="more than one backup can name"):
        create_backup(subject(folder), tmp_path / "to", lambda text: None)


def test_a_folder_that_is_copied_only_partly_makes_no_backup(tmp_path: Path) -> None:
    for folder in (
        printing(tmp_path, (named("data/a"), b"1")),
        printing(
            tmp_path, (named("data/a"), bytes(50_000)), (named("report.json"), REPORT), cut=40_000
        ),
    ):
        with pytest.raises(BackupError, match=r"open_webui: .*"):
            create_backup(subject(folder), tmp_path / "to", lambda text: None)
        assert list((tmp_path / "to").iterdir()) == []

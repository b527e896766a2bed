"""A backup and its restore give back the same house."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hearth.backup import BackupError, inside
from hearth.backup.restore import read_backup, restore_backup
from tests.unit.backup.local import KEY, House, backup, place


def fill(folder: Path, word: str = "hello") -> None:
    """Put a database, a nested one and files into a folder, as a service would."""
    (folder / "vector_db" / "empty").mkdir(parents=True)
    for name in ("webui.db", "vector_db/chroma.sqlite3"):
        with sqlite3.connect(folder / name) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE chat (id INTEGER PRIMARY KEY, text TEXT)")
            database.execute("INSERT INTO chat (text) VALUES (?)", (word,))
        database.close()
    (folder / "uploads").mkdir()
    (folder / "uploads" / "ü \udcff.pdf").write_bytes(os.urandom(3000))
    (folder / "uploads" / "big").write_bytes(os.urandom(9 * 2**20))
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o750)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder but databases: mode and content."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.stat().st_mode),
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
        if path.suffix not in (".db", ".sqlite3")
    }


def chats(database: Path) -> list[str]:
    """The rows of a database."""
    with sqlite3.connect(database) as opened:
        rows = [text for (text,) in opened.execute("SELECT text FROM chat ORDER BY id")]
    opened.close()
    return rows


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    fill(folder)
    return folder


def test_a_restored_house_is_as_it_was(tmp_path: Path, data: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "note").write_text("kept")
    made = backup(tmp_path / "to", place(data), place(plain, "files", "other"))
    assert made.good
    assert made.manifest.integrity == {
        "data/open_webui/0/webui.db": "ok",
        "data/open_webui/0/vector_db/chroma.sqlite3": "ok",
    }
    before = tree(data)
    for folder in (data, plain):
        shutil.rmtree(folder)
        folder.mkdir()
    house = House(tmp_path, [place(data), place(plain, "files", "other")])
    contents = read_backup(made.path, KEY)
    filled = restore_backup(made.path, KEY, contents, house.target(), False, lambda text: None)
    assert [one.service for one in filled] == ["open_webui", "other"]
    assert tree(data) == before
    assert chats(data / "webui.db") == chats(data / "vector_db/chroma.sqlite3") == ["hello"]
    assert (plain / "note").read_text() == "kept"
    assert house.values == {"some_key": "made at random"}
    # No service stops for longer than the exchange, and one that others need starts first.
    assert house.did == ["stop other", "stop open_webui", "converge"]
    assert not (tmp_path / "restoring").exists()


def test_only_its_owner_may_read_a_backup_and_all_of_it_is_encrypted(
    tmp_path: Path, data: Path
) -> None:
    made = backup(tmp_path / "to", place(data), secrets={"house_root_key": "do not tell"})
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    content = made.path.read_bytes()
    assert content.startswith(b"age-encryption.org/v1\n")
    assert not [word for word in (b"do not tell", b"hello", b"webui.db") if word in content]
    assert [path.name for path in made.path.parent.iterdir()] == [made.path.name]


def test_age_and_tar_open_a_backup_without_hearth(tmp_path: Path, data: Path) -> None:
    made = backup(tmp_path / "to", place(data))
    key = tmp_path / "key"
    key.write_text(KEY)
    plain = tmp_path / "plain.tar"
    argv = ["age", "--decrypt", "--identity", str(key), "--output", str(plain), str(made.path)]
    subprocess.run(argv, check=True, timeout=30)
    with tarfile.open(plain) as tar:
        names = tar.getnames()
    assert names[:3] == ["hearth.json", "vault.json", "data/open_webui/0/webui.db"]
    assert names[3] == "data/open_webui/0/vector_db/chroma.sqlite3"
    assert names[-1] == "manifest.json"
    assert not [name for name in names if name.endswith(("-wal", "-shm"))]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_the_program_has_only_the_rights_of_the_folders_owner(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        data = Path(made, "data")
        data.mkdir()
        (data / "roots").touch(0o600)
        os.chown(data, 65534, 65534)
        with pytest.raises(BackupError, match="roots: Permission denied"):
            backup(tmp_path / "to", place(data, "files"))
        os.chown(data / "roots", 65534, 65534)
        assert backup(tmp_path / "to", place(data, "files")).good


def test_links_and_sockets_are_left_out_and_named(tmp_path: Path, data: Path) -> None:
    (data / "passwd").symlink_to("/etc/passwd")
    (data / "outside").symlink_to("/etc")
    os.mkfifo(data / "pipe")
    made = backup(tmp_path / "to", place(data))
    left_out = [f"data/open_webui/0/{name}" for name in ("outside", "passwd", "pipe")]
    contents = read_backup(made.path, KEY)
    assert contents.manifest.left_out == made.manifest.left_out == left_out
    assert not [name for name in contents.manifest.entries if "passwd" in name]


def test_a_damaged_database_is_copied_as_it_is_and_reported(tmp_path: Path, data: Path) -> None:
    upload = data / "uploads" / "broken.db"
    upload.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    made = backup(tmp_path / "to", place(data))
    assert not made.good
    assert list(made.manifest.damaged) == ["data/open_webui/0/uploads/broken.db"]
    manifest = read_backup(made.path, KEY).manifest
    name = "data/open_webui/0/uploads/broken.db"
    assert manifest.entries[name].size == upload.stat().st_size
    assert name not in manifest.integrity


def test_the_names_that_a_restore_reserves_are_allowed_deeper_in_the_data(
    tmp_path: Path, data: Path
) -> None:
    inner = data / "uploads" / ".hearth-restore" / "new"
    inner.mkdir(parents=True)
    (inner / "a").write_text("somebody's")
    made = backup(tmp_path / "to", place(data))
    shutil.rmtree(data)
    data.mkdir()
    house = House(tmp_path, [place(data)])
    restore_backup(
        made.path, KEY, read_backup(made.path, KEY), house.target(), False, lambda text: None
    )
    assert (inner / "a").read_text() == "somebody's"


def test_a_copy_that_another_run_locks_stays_and_one_of_a_killed_run_is_removed(
    tmp_path: Path, data: Path
) -> None:
    made = Path(tempfile.mkdtemp(dir="/var/tmp"))
    handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    # It is locked before it gets its name: another process may search for leftovers at any moment.
    left = made.rename(made.with_name(f"hearth-backup-{os.getuid()}-{made.name}"))
    backup(tmp_path / "to", place(data))
    assert left.exists()
    os.close(handle)
    backup(tmp_path / "to", place(data))
    assert not left.exists()


def test_a_copy_that_another_run_removed_as_a_leftover_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "SCRATCH", str(tmp_path))
    make: Any = tempfile.TemporaryDirectory
    taken: list[str] = []

    def make_then_remove(**options: Any) -> Any:
        folder = make(**options)
        if not taken:
            os.rmdir(folder.name)
            taken.append(folder.name)
        return folder

    monkeypatch.setattr(tempfile, "TemporaryDirectory", make_then_remove)
    with inside.scratch() as folder:
        assert [str(path) for path in tmp_path.iterdir()] == [str(folder)] != taken
    assert list(tmp_path.iterdir()) == []

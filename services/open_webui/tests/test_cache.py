"""Speech is stored for a short time only."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hearth_open_webui.cache import keep_apart, remove_old_files


def test_removes_only_old_files_and_keeps_folders(tmp_path: Path) -> None:
    folder = tmp_path / "speech"
    folder.mkdir()
    old, new = folder / "old.mp3", folder / "new.mp3"
    for path in (old, new):
        path.write_bytes(b"sound")
    long_ago = time.time() - 7200
    os.utime(old, (long_ago, long_ago))
    remove_old_files(tmp_path, 3600)
    assert list(tmp_path.rglob("*.mp3")) == [new]
    remove_old_files(tmp_path)
    assert list(tmp_path.rglob("*")) == [folder]


def test_a_missing_folder_is_ignored(tmp_path: Path) -> None:
    remove_old_files(tmp_path / "none")


def test_speech_is_stored_outside_the_data(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "var" / "cache"
    # As an earlier version left it.
    (data / "cache" / "audio").mkdir(parents=True)
    (data / "cache" / "audio" / "words.json").write_text("what was said")
    for _ in range(2):
        keep_apart(data / "cache", place)
        assert [path for path in data.rglob("*") if not path.is_symlink()] == []
        (data / "cache" / "speech.mp3").write_bytes(b"sound")
        assert (place / "speech.mp3").read_bytes() == b"sound"
    assert place.stat().st_mode & 0o777 == 0o700

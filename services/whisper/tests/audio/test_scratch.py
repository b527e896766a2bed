"""Uploads lie in memory or in files without a name, and all together within a bound."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.audio.scratch import Scratch


def test_a_small_sheet_stays_in_memory_and_a_large_one_has_no_name(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, 10_000)
    with scratch.sheet(100) as sheet:
        sheet.write(b"a" * 60)
        assert not sheet.on_disk
        sheet.write(b"b" * 60)
        sheet.write(b"c" * 60)
        assert sheet.on_disk
        assert sheet.begin().read() == b"a" * 60 + b"b" * 60 + b"c" * 60
        assert scratch.used_bytes == sheet.size == 180
        assert not list(tmp_path.iterdir())
    assert scratch.used_bytes == 0


def test_all_sheets_together_have_a_bound(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, 1000)
    one, two = scratch.sheet(), scratch.sheet()
    one.write(bytes(700))
    with pytest.raises(ServiceError) as full:
        two.write(bytes(400))
    assert (full.value.status, full.value.retry_after_s) == (503, 10)
    one.close()
    one.close()
    two.write(bytes(400))
    two.close()
    assert scratch.used_bytes == 0


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "cannot write")]
)
def test_a_disk_that_takes_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(number, os.strerror(number))

    scratch = Scratch(tmp_path, 1000)
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with scratch.sheet(10) as sheet, pytest.raises(ServiceError, match=words) as error:
        sheet.write(bytes(20))
    assert (error.value.status, scratch.used_bytes) == (507, 0)


def test_a_full_disk_is_felt_at_the_end_as_well() -> None:
    scratch = Scratch(None, 1 << 20)
    sheet = scratch.sheet(0)
    sheet._file = open("/dev/full", "wb", buffering=1 << 16)  # noqa: SIM115 - close() does
    sheet.write(bytes(100))
    with pytest.raises(ServiceError, match="disk is full"):
        sheet.begin()
    sheet.close()
    assert scratch.used_bytes == 0


def test_nothing_is_left_of_a_process_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\n"
        "from hearth_whisper.audio.scratch import Scratch\n"
        "sheet = Scratch(pathlib.Path(sys.argv[1]), 1 << 20).sheet(10)\n"
        "sheet.write(bytes(50_000))\n"
        "assert sheet.on_disk\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    here = Path(__file__).parents[2]
    path = os.pathsep.join([str(here), str(here.parent / "serving")])
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env={"PYTHONPATH": path}, timeout=60
    )
    assert ended.returncode == -9
    assert not list(tmp_path.iterdir())

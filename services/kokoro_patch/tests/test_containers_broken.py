"""Containers with failing copies and links: no partial change, and no access to the host."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from hearth_kokoro_patch import PatchError
from hearth_kokoro_patch.containers import find
from hearth_kokoro_patch.record import FOLDER

from .conftest import NAMES, Release, contents
from .engines import Engines, fill, wanted

ENGINE = NAMES["kokoro_v1"]


def test_an_incorrect_copy_is_undone_and_reported(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    home = engines.add("podman")
    inside = fill(home, release("v0.8"))
    before = contents(inside)
    there = find("speech", engines)
    found = wanted(there, tmp_path / "copy", "yielding")
    # The first file comes, the second one does not.
    home.loses = r"tts_service\.py"
    with pytest.raises(PatchError, match=r"speech:/app/api/.*tts_service\.py: was not copied"):
        there.copy_in(found)
    left = contents(inside)
    assert {n: c for n, c in left.items() if not n.startswith(".hearth-patch/")} == before


def a_link_inside(record: Path, host: Path) -> None:
    record.mkdir()
    (record / ".gitignore").symlink_to(host / "passwd")


HOSTILE: dict[str, Callable[[Path, Path], object]] = {
    "a link in the record": a_link_inside,
    "the record is a link": lambda record, host: record.symlink_to(host),
    "the record is a file": lambda record, host: record.write_text("nothing"),
    "a folder in the record": lambda record, host: (record / "record.json").mkdir(parents=True),
}


@pytest.mark.parametrize("form", HOSTILE)
def test_links_in_the_record_reach_nothing_on_the_host(
    engines: Engines, release: Release, tmp_path: Path, form: str
) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "passwd").write_text("root")
    inside = fill(engines.add("podman"), release("v0.8"))
    HOSTILE[form](inside / FOLDER, host)
    with pytest.raises(PatchError, match=r"\.hearth-patch.*: is "):
        wanted(find("speech", engines), tmp_path / "copy", "sentences")
    assert contents(host) == {"passwd": b"root"}


def test_a_file_that_became_a_link_is_not_written_through(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    victim = tmp_path / "passwd"
    victim.write_text("root")
    inside = fill(engines.add("docker"), release("v0.8"))
    there = find("speech", engines)
    found = wanted(there, tmp_path / "copy", "sentences")
    (inside / ENGINE).unlink()
    (inside / ENGINE).symlink_to(victim)
    with pytest.raises(PatchError, match=r"speech:/app/api.*kokoro_v1\.py: is no longer a file"):
        there.copy_in(found)
    assert victim.read_text() == "root"


def test_nothing_changes_unless_the_originals_can_be_stored(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    home = engines.add("podman")
    inside = fill(home, release("v0.8"))
    before = contents(inside)
    there = find("speech", engines)
    found = wanted(there, tmp_path / "copy", "sentences")
    home.loses = r"\.hearth-patch"
    with pytest.raises(PatchError, match=r"speech:/app/\.hearth-patch: was not copied"):
        there.copy_in(found)
    assert contents(inside) == before


def test_an_incomplete_original_is_copied_again(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    inside = fill(engines.add("podman"), release("v0.8"))
    before = contents(inside)
    there = find("speech", engines)
    kept = inside / FOLDER / sha256(before[ENGINE]).hexdigest()
    kept.parent.mkdir()
    kept.write_bytes(before[ENGINE][:100])
    there.copy_in(wanted(there, tmp_path / "copy", "sentences"))
    there.copy_in(wanted(there, tmp_path / "copy"))
    assert contents(inside) == before


def test_the_record_of_a_killed_take_back_is_removed(
    engines: Engines, release: Release, tmp_path: Path
) -> None:
    home = engines.add("podman")
    inside = fill(home, release("v0.8"))
    before = contents(inside)
    there = find("speech", engines)
    there.copy_in(wanted(there, tmp_path / "copy", "sentences"))
    home.loses = "rm -rf"
    there.copy_in(wanted(there, tmp_path / "copy"))
    assert (inside / FOLDER).is_dir()
    home.loses = ""
    again = wanted(there, tmp_path / "copy")
    assert (again.files, again.forgets) == ((), True)
    there.copy_in(again)
    assert contents(inside) == before

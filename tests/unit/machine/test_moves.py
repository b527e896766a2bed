"""A service moves between engines with its data, and a killed run is continued."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hearth.catalogue.house import Service
from hearth.machine import engine, moves
from hearth.machine.moves import Move, MoveError
from tests.unit.machine.samples import service


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(moves, "NOTES", tmp_path / "moves")
    return tmp_path / "moves"


def named(name: str, runtime: str) -> Service:
    return service(name=name, instance=name.replace("_", "-"), runtime=runtime)


def test_a_service_that_another_engine_has_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    quadlets = {"whisper", "tts-old"}
    monkeypatch.setattr(engine, "contained", quadlets.__contains__)
    services = [
        named("kokoro", "podman"),
        named("whisper", "incus"),
        named("tts_old", "podman"),
        named("litellm", "incus"),
    ]
    assert moves.needed(services, ["kokoro", "litellm"]) == [
        Move("kokoro", "incus", copied=False),
        Move("whisper", "podman", copied=False),
    ]


def test_a_move_that_was_killed_is_continued_where_it_was(notes: Path) -> None:
    moves.note(Move("kokoro", "incus", copied=True))
    # Its old instance is there still, and its data must not be copied again.
    assert moves.needed([named("kokoro", "podman")], ["kokoro"]) == [
        Move("kokoro", "incus", copied=True)
    ]
    moves.forget("kokoro")
    moves.forget("kokoro")
    assert moves.noted() == {}


def test_a_note_that_cannot_be_read_is_no_move(notes: Path) -> None:
    notes.mkdir()
    (notes / "kokoro.json").write_text("{")
    assert moves.noted() == {}


def filled(folder: Path, first: int) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/rows").write_bytes(b"1\n2\n")
    (folder / "deep/rows").chmod(0o640)
    (folder / "link").symlink_to("/etc/passwd")
    for path in (folder, folder / "deep", folder / "deep/rows", folder / "link"):
        os.lchown(path, first + 900, first + 900)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_data_keep_their_owner_in_another_range_of_ids(tmp_path: Path) -> None:
    source, target = filled(tmp_path / "old", 1_000_000), tmp_path / "new"
    target.mkdir()
    # What a killed copy left is not mixed with the data.
    (target / "left").mkdir()
    (target / "left/over").touch()
    before = Path("/etc/passwd").stat().st_uid
    moves._copy(source, target, 1_000_000, 2_000_000)
    assert not (target / "left").exists()
    assert (target / "deep/rows").read_bytes() == b"1\n2\n"
    owners = {path.lstat().st_uid for path in (target, target / "deep/rows", target / "link")}
    assert owners == {2_000_900}
    assert (target / "deep/rows").stat().st_mode & 0o777 == 0o640
    assert Path("/etc/passwd").stat().st_uid == before


def test_a_copy_that_fails_names_the_folders(tmp_path: Path) -> None:
    with pytest.raises(MoveError, match="is not there, so its data cannot be moved"):
        moves._copy(tmp_path / "none", tmp_path, 0, 0)
    source = tmp_path / "old"
    source.mkdir()
    (source / "a").touch()
    with pytest.raises(MoveError, match=r"old was not copied to .*new: "):
        moves._copy(source, tmp_path / "none/new", 0, 0)


@pytest.mark.parametrize(
    ("config", "first"),
    [
        ({}, 0),
        ({"volatile.idmap.last": "[]"}, 0),
        (
            {
                "volatile.idmap.last": '[{"Isuid":true,"Isgid":false,"Hostid":1065536,"Nsid":0,'
                '"Maprange":65536},{"Isuid":false,"Isgid":true,"Hostid":1065536,"Nsid":0,'
                '"Maprange":65536}]'
            },
            1_065_536,
        ),
    ],
)
def test_the_ids_of_a_volume_are_those_that_incus_wrote(config: dict[str, str], first: int) -> None:
    found = SimpleNamespace(config=config)
    pool = SimpleNamespace(volumes=SimpleNamespace(get=lambda kind, name: found))
    client = SimpleNamespace(storage_pools=SimpleNamespace(get=lambda name: pool))
    volume = service(volumes=[{"name": "a", "path": "/a", "copy": "files", "from_folder": None}])
    assert moves._shift(client, volume.volumes[0]) == first


def test_the_ids_of_a_container_are_those_that_it_was_started_with(notes: Path) -> None:
    whisper = service(name="whisper", instance="whisper", address="10.140.30.30")
    kept = notes / "whisper.quadlets"
    kept.mkdir(parents=True)
    text = "[Container]\nUIDMap=0:2005467136:65536\nGIDMap=0:2005467136:65536\n"
    (kept / "hearth-whisper.container").write_text(text)
    # The record has another address again, from which other ids follow.
    assert moves._first_id_before(whisper) == 2005467136

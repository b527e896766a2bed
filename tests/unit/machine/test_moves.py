"""A service moves between engines with its data, and a killed run is continued."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hearth.catalogue.house import Service
from hearth.machine import engine, moves, podman
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


def test_a_move_whose_word_is_written_back_takes_along_what_was_written_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "contained", {"kokoro"}.__contains__)
    moves.note(Move("kokoro", "incus", copied=True))
    # The container ran already: its data are the newer ones.
    assert moves.needed([named("kokoro", "incus")], ["kokoro"]) == [
        Move("kokoro", "podman", copied=False)
    ]
    monkeypatch.setattr(engine, "contained", set[str]().__contains__)
    assert moves.needed([named("kokoro", "incus")], ["kokoro"]) == [
        Move("kokoro", "incus", copied=True)
    ]


class Instances:
    """The instances of Incus, as pylxd has them."""

    def __init__(self, *names: str) -> None:
        self.there = {name: Instance(name, self) for name in names}

    def exists(self, name: str) -> bool:
        return name in self.there

    def get(self, name: str) -> Instance:
        return self.there[name]


class Instance:
    """One of them, which is stopped."""

    def __init__(self, name: str, all_of_them: Instances) -> None:
        self.name, self.status, self.config = name, "Stopped", {"boot.autostart": "false"}
        self._all = all_of_them

    def start(self, wait: bool) -> None:
        self.status = "Running"

    def save(self, wait: bool) -> None:
        pass

    def delete(self, wait: bool) -> None:
        del self._all.there[self.name]


OWN = [{"name": "kokoro-data", "path": "/var/lib/kokoro", "copy": "none", "from_folder": None}]
MARK = "[Container]\nLabel=hearth.service=kokoro\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose systemd and Podman do nothing; they note what they are told."""
    told = tmp_path / "told"
    told.touch()

    def note(*words: str, **_: object) -> str:
        with told.open("a") as file:
            file.write(f"{' '.join(words)}\n")
        return ""

    monkeypatch.setattr(moves, "QUADLETS", str(tmp_path))
    monkeypatch.setattr(engine, "QUADLETS", str(tmp_path))
    monkeypatch.setattr(moves, "_systemctl", note)
    monkeypatch.setattr(moves, "_stop_container", lambda service: None)
    monkeypatch.setattr(podman, "call", note)
    monkeypatch.setattr(podman, "has_volume", lambda name: True)
    return tmp_path


def test_of_a_container_that_did_not_become_healthy_nothing_is_left(machine: Path) -> None:
    kokoro = service(name="kokoro", instance="kokoro", runtime="podman", volumes=OWN)
    (machine / "hearth-kokoro.container").write_text(MARK)
    (machine / "hearth-kokoro.container.d").mkdir()
    (machine / "hearth-other.container").write_text("[Container]\nLabel=hearth.service=other\n")
    client = SimpleNamespace(instances=Instances("kokoro"))
    moves.start_old(client, kokoro, Move("kokoro", "incus", copied=True))
    assert client.instances.get("kokoro").status == "Running"
    assert client.instances.get("kokoro").config == {"boot.autostart": "true"}
    assert [path.name for path in machine.glob("hearth-*")] == ["hearth-other.container"]
    assert "volume rm --force hearth-kokoro-var-lib-kokoro" in (machine / "told").read_text()
    # With either word, the next run does not take the stale copy.
    back = service(name="kokoro", instance="kokoro", runtime="incus", volumes=OWN)
    assert moves.needed([back], ["kokoro"]) == []


def test_of_an_instance_that_did_not_become_healthy_nothing_is_left(
    machine: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kokoro = service(name="kokoro", instance="kokoro", runtime="incus", volumes=OWN)
    kept = notes / "kokoro.quadlets"
    kept.mkdir(parents=True)
    (kept / "hearth-kokoro.container").write_text(MARK)
    gone = []
    volume = SimpleNamespace(delete=lambda: gone.append("kokoro-data"))
    monkeypatch.setattr(engine, "data_volumes", lambda client: {"kokoro-data": volume})
    client = SimpleNamespace(instances=Instances("kokoro"))
    moves.start_old(client, kokoro, Move("kokoro", "podman", copied=True))
    assert not client.instances.exists("kokoro")
    assert gone == ["kokoro-data"]
    assert (machine / "hearth-kokoro.container").read_text() == MARK
    moves.forget("kokoro")
    back = service(name="kokoro", instance="kokoro", runtime="podman", volumes=OWN)
    assert moves.needed([back], []) == []


def test_data_that_are_there_already_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kokoro = service(name="kokoro", instance="kokoro", runtime="podman", volumes=OWN)
    monkeypatch.setattr(moves, "_podman_volume", lambda service, volume: tmp_path)
    moves.refuse_occupied(None, kokoro, Move("kokoro", "incus", copied=False))
    (tmp_path / "voices").touch()
    with pytest.raises(MoveError, match=r"already holds data of kokoro.*podman volume rm hearth-"):
        moves.refuse_occupied(None, kokoro, Move("kokoro", "incus", copied=False))

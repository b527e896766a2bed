"""Wherever a restore fails, the house gets back its data and secrets."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import IO, cast

import pytest

from hearth.backup import BackupError
from hearth.backup.archive import small_file
from hearth.backup.restore import Journal, read_backup, restore_backup
from tests.unit.backup.local import KEY, House, backup, place, put_back
from tests.unit.backup.rows import all_of, words

OURS = {"some_key": "ours"}


class KilledError(BaseException):
    """The machine lost its power."""


def replace(file: Path, house: House) -> None:
    put_back(file, house, replace=True)


def unhealthy(house: House, *errors: BaseException | None) -> None:
    """Let the next converges end so."""
    left = list(errors)

    def healthy() -> None:
        if left and (error := left.pop(0)):
            raise error

    house.healthy = healthy


def untouched(house: House, data: Path) -> None:
    """Check that a house is as it was and has no journal."""
    assert words(data) == all_of("new")
    assert house.values == OURS
    assert not (data / ".hearth-restore").exists()
    assert [path.name for path in house.state.iterdir() if path.is_file()] == []


def test_a_house_that_does_not_become_healthy_gets_back_what_it_had(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values={"some_key": "another"})
    seen: list[dict[str, str]] = []

    def fail_once() -> None:
        seen.append(words(data))
        if len(seen) == 1:
            raise BackupError("open_webui is not healthy")

    house.healthy = fail_once
    with pytest.raises(BackupError, match="did not become healthy: open_webui is not healthy\n"):
        replace(file, house)
    assert [one["a"] for one in seen] == ["old", "new"]
    assert words(data) == all_of("new")
    assert not (data / ".hearth-restore").exists()
    assert house.values == {"some_key": "another"}


def test_a_house_that_cannot_be_built_has_its_old_secrets(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS), built=False)
    unhealthy(house, BackupError("no network"))
    with pytest.raises(BackupError, match="no network\nthe house is as it was before"):
        replace(file, house)
    untouched(house, data)


def test_an_empty_machine_that_cannot_be_built_goes_on_with_the_same_command(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], built=False)
    unhealthy(house, BackupError("no network"))
    with pytest.raises(BackupError, match="no network\nfix that, then run the same command again"):
        put_back(file, house)
    # Half a house was built meanwhile; its data are not needed.
    put_back(file, house)
    assert words(data) == all_of("old")


@pytest.mark.parametrize("built", [True, False])
def test_a_full_disk_is_reported_with_the_state_of_the_house(
    file: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    monkeypatch.setattr("hearth.backup.restore._SPARE_BYTES", 2**60)
    house = House(tmp_path, [place(data)], values=dict(OURS), built=built)
    end = "nothing was changed" if built else "the house is as it was before"
    with pytest.raises(BackupError, match=f"make room\n{end}"):
        replace(file, house)
    untouched(house, data)
    assert (house.did == []) is built
    # A rejected restore leaves no journal: weeks later the house counts as occupied again.
    monkeypatch.undo()
    with pytest.raises(BackupError, match="this house is not empty"):
        put_back(file, house)


def test_a_file_that_breaks_between_its_readings_changes_nothing(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    contents = read_backup(file, KEY)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(BackupError, match=r"damaged or cut short.*\nthe house is as it was before"):
        restore_backup(file, KEY, contents, house.target(), True, lambda text: None)
    untouched(house, data)


def test_a_file_that_is_exchanged_between_its_readings_changes_nothing(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    contents = read_backup(file, KEY)
    backup(tmp_path / "other", place(data)).path.replace(file)
    with pytest.raises(BackupError, match=r"has changed since .*\nthe house is as it was before"):
        restore_backup(file, KEY, contents, house.target(), True, lambda text: None)
    untouched(house, data)


def test_a_program_whose_input_breaks_off_between_two_files_reports_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with place(tmp_path / "data").program("stage") as child:
        with tarfile.open(fileobj=cast("IO[bytes]", child), mode="w|") as tar:
            tar.addfile(*small_file("new/a", "1"))
        child.close()
        with pytest.raises(BackupError, match="the backup ended before its last file"):
            child.wait()


def test_secrets_from_before_a_kill_come_back_when_the_second_try_fails(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    unhealthy(house, KilledError(), KilledError(), BackupError("ill"))
    for _ in range(2):
        with pytest.raises(KilledError):
            replace(file, house)
        assert house.values == {"some_key": "made at random"}
    with pytest.raises(BackupError, match="did not become healthy: ill\nthe house is as it was"):
        replace(file, house)
    untouched(house, data)


def test_a_failed_restoration_is_reported_and_its_secrets_stay(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    unhealthy(house, BackupError("ill"), BackupError("ill still"))
    with pytest.raises(
        BackupError, match="could not be put back, either \\(ill still\\): run"
    ) as error:
        replace(file, house)
    assert str(house.journal.vault) in str(error.value)
    assert house.journal.old_secrets() == OURS
    # The same command goes on from there.
    put_back(file, house)
    assert words(data) == all_of("old")


def test_services_stop_before_anything_is_written_beside_their_data(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    states: list[str] = []
    contents = read_backup(file, KEY)
    restore_backup(
        file, KEY, contents, house.target(), True, lambda text: states.append(str(house.did))
    )
    assert states[0] == str(["stop open_webui"])


def test_a_kill_after_the_end_leaves_nothing_beside_the_data(
    file: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))

    def killed(journal: Journal) -> None:
        journal.vault.unlink()
        raise KilledError

    monkeypatch.setattr("hearth.backup.restore.Journal.drop_vault", killed)
    with pytest.raises(KilledError):
        replace(file, house)
    monkeypatch.undo()
    assert house.journal.needs_only_cleanup()
    unhealthy(house, BackupError("ill"))
    with pytest.raises(BackupError, match="the house is as it was before"):
        put_back(file, house)
    # Before the second try, the house was what the first had made of it.
    assert words(data) == all_of("old")
    assert house.values == {"some_key": "made at random"}


def test_a_vault_that_was_kept_for_a_restore_that_never_began_is_not_taken(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    house.journal.vault.write_text('{"some_key": "years ago"}')
    unhealthy(house, BackupError("ill"))
    with pytest.raises(BackupError, match="the house is as it was before"):
        replace(file, house)
    untouched(house, data)


def test_no_backup_is_made_of_half_a_house(file: Path, data: Path, tmp_path: Path) -> None:
    house = House(tmp_path, [place(data)], values=dict(OURS))
    unhealthy(house, KilledError())
    with pytest.raises(KilledError):
        replace(file, house)
    with pytest.raises(BackupError, match="run `hearth restore FILE` again first"):
        house.journal.refuse_unfinished()
    # The data folder shows it too, if the machine's own journal is gone.
    with pytest.raises(BackupError, match="a restore was cut short in"):
        backup(tmp_path / "later", place(data))
    assert list((tmp_path / "later").iterdir()) == []
    put_back(file, house)
    house.journal.refuse_unfinished()
    assert backup(tmp_path / "later", place(data)).good

"""Kills, full disks and unhealthy houses: old data stays, or the same command repairs it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hearth.backup import BackupError
from hearth.backup.agent import Child, DataFolder
from hearth.backup.create import create_backup
from hearth.backup.restore import as_json, read_backup, restore_backup
from hearth.machine.pki import fingerprint, make_house_authority
from tests.unit.backup import local
from tests.unit.backup.local import KEY, House, backup, place, put_back, subject
from tests.unit.backup.rows import all_of, fill, words


def test_a_house_that_holds_something_is_left_alone(file: Path, data: Path, tmp_path: Path) -> None:
    house = House(tmp_path, [place(data)], values={"some_key": "another"})
    with pytest.raises(BackupError) as refused:
        put_back(file, house)
    assert str(refused.value) == (
        f"this house is not empty ({data} of open_webui, its secrets): add --replace to overwrite "
        "it with the backup; its present data are lost"
    )
    assert words(data) == all_of("new")
    assert house.did == []
    assert house.values == {"some_key": "another"}
    put_back(file, house, replace=True)
    assert words(data) == all_of("old")
    assert house.values == {"some_key": "made at random"}


def test_an_empty_machine_is_built_first_and_with_the_old_secrets(
    file: Path, data: Path, tmp_path: Path
) -> None:
    house = House(tmp_path, [place(data)], built=False)
    seen: list[dict[str, str]] = []
    house.healthy = lambda: seen.append(dict(house.values))
    put_back(file, house)
    assert house.did == ["converge", "stop open_webui", "converge open_webui"]
    assert seen[0] == {"some_key": "made at random"}
    assert words(data) == all_of("old")


def test_data_of_a_missing_instance_count_as_data_of_the_house(
    file: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, [place(data)], built=False)
    monkeypatch.setattr(DataFolder, "has_data", lambda folder: True)
    kept = house.target()
    with pytest.raises(BackupError, match="not empty"):
        restore_backup(file, KEY, read_backup(file, KEY), kept, False, lambda text: None)
    assert house.did == []


def test_a_disabled_service_is_named(file: Path, data: Path, tmp_path: Path) -> None:
    house = House(tmp_path, [place(tmp_path / "elsewhere")])
    with pytest.raises(BackupError, match=f"holds {data} of open_webui, which this house does not"):
        put_back(file, house)


def dying(verb: str, after: int) -> Callable[..., contextlib.AbstractContextManager[Child]]:
    """A runner whose program is killed in `verb`, when it has done so many changes of names."""

    @contextlib.contextmanager
    def run(instance: str, argv: Sequence[str]) -> Iterator[Child]:
        if argv[5] == verb:
            script = (
                "import os, signal, sys\n"
                "done = 0\n"
                "def watch(event, args):\n"
                "    global done\n"
                "    if event in ('os.rename', 'os.mkdir', 'os.remove', 'os.rmdir') or (\n"
                "        event == 'open' and '.hearth-restore' in str(args)):\n"
                f"        done += 1\n        if done > {after}: os.kill(os.getpid(), 9)\n"
                "sys.addaudithook(watch)\n"
            )
            argv = [*argv[:3], f"{script}\nexec({argv[3]!r})", *argv[4:]]
            with local.run(instance, argv) as child:
                yield child
            return
        with local.run(instance, argv) as child:
            yield child

    return run


@pytest.mark.parametrize("verb", ["stage", "switch", "finish"])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 11])
def test_a_restore_killed_anywhere_is_run_again(
    file: Path, data: Path, tmp_path: Path, verb: str, after: int
) -> None:
    house = House(tmp_path, [place(data)])
    contents = read_backup(file, KEY)

    # As after a power cut, nothing is put back.
    weak = replace(
        house.target(), folders=[replace(one, runner=dying(verb, after)) for one in house.folders]
    )
    with contextlib.suppress(BackupError), _no_undoing():
        restore_backup(file, KEY, contents, weak, True, lambda text: None)
    # The same command, and without --replace: the journal shows that it was given before.
    if (tmp_path / "restoring").exists():
        put_back(file, house)
    assert words(data) == all_of("old")
    assert sorted(path.name for path in data.iterdir()) == ["a", "b", "uploads", "webui.db"]
    assert not (tmp_path / "restoring").exists()


@contextlib.contextmanager
def _no_undoing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hearth.backup.restore._Restore.undo", lambda doing: "cut")
        yield


def test_data_that_were_moved_aside_come_back_from_every_cut(tmp_path: Path) -> None:
    for after in range(16):
        data = tmp_path / str(after)
        fill(data, "new")
        new = data / ".hearth-restore" / "new"
        fill(new, "old")
        weak = replace(place(data), runner=dying("switch", after))
        with contextlib.suppress(BackupError):
            weak.change("switch")
        place(data).change("back")
        assert words(data) == all_of("new"), after
        assert not (data / ".hearth-restore").exists()


def test_a_killed_backup_leaves_no_half_file_and_the_next_clears_up(
    tmp_path: Path, data: Path
) -> None:
    (data / "large").write_bytes(bytes(60 * 2**20))
    # It kills itself in the middle: from outside the moment would be uncertain.
    script = (
        "import os, sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from hearth.backup.archive import Content\n"
        "from tests.unit.backup.local import backup, place\n"
        f"to, read = Path({str(tmp_path / 'to')!r}), Content.read\n"
        "def dying(content, size):\n"
        "    if any(p.stat().st_size > 100_000 for p in to.glob('.hearth-backup-house-*')):\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return read(content, size)\n"
        "Content.read = dying\n"
        f"backup(to, place(Path({str(data)!r})))\n"
    )
    for _ in range(2):
        killed = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
        assert killed.returncode == -signal.SIGKILL
        assert [path.name[:15] for path in (tmp_path / "to").iterdir()] == [".hearth-backup-"]
    made = backup(tmp_path / "to", place(data))
    assert list((tmp_path / "to").iterdir()) == [made.path]
    assert (
        read_backup(made.path, KEY).manifest.entries["data/open_webui/0/large"].size == 60 * 2**20
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1M", "small", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, data: Path, small_disk: Path) -> None:
    (data / "large").write_bytes(os.urandom(3 * 2**20))
    with pytest.raises(BackupError, match="No space left on device"):
        create_backup(subject(place(data)), small_disk, lambda text: None)
    assert list(small_disk.iterdir()) == []


def test_free_space_is_checked_before_any_change(
    file: Path, tmp_path: Path, small_disk: Path
) -> None:
    (small_disk / "there").write_text("kept")
    contents = read_backup(file, KEY)
    here = place(small_disk)
    volume = contents.header.volumes[0].model_copy(update={"path": str(small_disk)})
    header = contents.header.model_copy(update={"volumes": [volume]})
    house = House(tmp_path, [here])
    with pytest.raises(BackupError, match="nothing was changed"):
        restore_backup(
            file, KEY, replace(contents, header=header), house.target(), True, lambda text: None
        )
    assert [path.name for path in small_disk.iterdir()] == ["there"]
    assert house.did == []


def test_an_authority_of_another_domain_is_refused(tmp_path: Path, data: Path) -> None:
    made = make_house_authority("home.arpa", datetime.now(UTC)).as_secrets()
    file = backup(tmp_path / "to", place(data), secrets=made).path
    # A backup is not signed: only this distinguishes ours from another's.
    assert as_json(read_backup(file, KEY))["root"] == fingerprint(made["house_root_cert"])
    house = House(tmp_path, [place(data)])
    with pytest.raises(BackupError, match=r"write `domain: home.arpa` into inventory/local/machi"):
        put_back(file, house, replace=True)
    assert house.did == []

"""The command: the key is shown once, the inventory gets its other half, old backups go."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hearth.backup import age
from hearth.backup.agent import data_folders
from hearth.backup.create import PART, file_name, rotate
from hearth.backup.timer import units
from hearth.catalogue import derive, load
from hearth.catalogue.records import FILES
from hearth.cli.app import app
from hearth.project import current
from hearth.yaml_edit import with_value
from tests.unit.backup.local import KEY, RECIPIENT, backup, place

ROOT = Path(__file__).parents[3]
PATH = ("machines", "house", "backup", "recipient")
OTHER = age.new_key()[1]


@pytest.mark.parametrize(
    "text",
    [
        "---\n",
        "# nothing yet\n",
        "---\nmachines: {house: {domain: home.arpa}}\n",
        "---\nmachines:\n  house: {domain: home.arpa}  # ours\n",
        "---\nmachines:\n  house:\n    domain: home.arpa  # ours\n\n    sleep: allowed\n",
        "machines:\n    house:\n        domain: home.arpa\n",
        "machines:\n  house:\n    backup:\n      keep: 3\n    domain: home.arpa\n",
        "machines:\n  house:\n    backup: {keep: 3}\n",
        f"machines:\n  house:\n    backup:\n      recipient: {OTHER}\n      keep: 3\n",
        "machines:\n  house:\n    backup:\n",
        "machines:\n",
        'machines: {"house": {"sleep": "allowed"}}\n',
    ],
)
def test_a_recipient_is_one_line_more_and_nothing_else_changes(text: str) -> None:
    new = with_value(text, PATH, RECIPIENT)
    wanted = yaml.safe_load(text) or {}
    wanted["machines"] = wanted.get("machines") or {}
    record = wanted["machines"].setdefault("house", {})
    record["backup"] = (record.get("backup") or {}) | {"recipient": RECIPIENT}
    assert yaml.safe_load(new) == wanted
    assert new.count("machines:") == 1
    assert new.count("#") == text.count("#")


def test_what_cannot_be_extended_safely_is_left_alone() -> None:
    merged = "machines:\n  other: &one {sleep: allowed}\n  house: {<<: *one, domain: lan}\n"
    assert yaml.safe_load(with_value(merged, PATH, RECIPIENT))["machines"]["house"]["sleep"]
    with pytest.raises(ValueError, match="another meaning"):
        with_value("machines:\n  other: &one {sleep: allowed}\n  house: *one\n", PATH, RECIPIENT)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with the inventory of this one and no settings of its own."""
    folder = tmp_path / "checkout"
    (folder / "inventory").mkdir(parents=True)
    for name in FILES:
        source = ROOT / "inventory" / f"{name}.yml"
        (folder / "inventory" / source.name).write_text(source.read_text())
    monkeypatch.setenv("HEARTH_PROJECT", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    current.cache_clear()
    yield folder
    current.cache_clear()


def test_the_key_is_shown_once_and_kept_nowhere(project: Path, tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["backup"])
    assert "run `hearth backup --new-key`" in str(refused.exception)
    done = CliRunner().invoke(app, ["backup", "--new-key"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (key,) = (line for line in done.stdout.splitlines() if line)
    recipient = age.recipient_of(key)
    local = project / "inventory/local/machines.yml"
    assert yaml.safe_load(local.read_text())["machines"]["house"]["backup"] == {
        "recipient": recipient
    }
    machine = derive(load(project / "inventory")).machine
    assert (machine.backup.recipient, machine.backup.at) == (recipient, "03:30")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if key in path.read_text(errors="replace")]
    again = CliRunner().invoke(app, ["backup", "--new-key"])
    assert "has a recipient already" in str(again.exception)
    assert recipient in local.read_text()


def test_a_key_that_nobody_could_see_is_not_written_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hearth.cli.backup.typer.echo", full)
    assert CliRunner().invoke(app, ["backup", "--new-key"]).exit_code == 1
    assert not (project / "inventory/local/machines.yml").exists()


def test_the_command_makes_no_backup_while_a_restore_is_unfinished(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CliRunner().invoke(app, ["backup", "--new-key"], catch_exceptions=False)
    monkeypatch.setattr("hearth.cli.backup.LOCK", tmp_path / "lock")
    monkeypatch.setattr("hearth.cli.backup.STATE", tmp_path)
    (tmp_path / "restoring").write_text("some backup")
    refused = CliRunner().invoke(app, ["backup", "--to", str(tmp_path / "to")])
    assert "a restore was cut short here" in str(refused.exception)
    assert not (tmp_path / "to").exists()


def test_a_timer_requires_a_key() -> None:
    machine = derive(load(ROOT / "inventory")).machine
    assert (machine.backup.recipient, machine.backup.at) == (None, None)


def test_a_backup_is_described_to_programs_without_a_secret_in_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").write_text("1")
    made = backup(tmp_path / "to", place(data, "files"), secrets={"some_key": "hush"})
    key = tmp_path / "key"
    key.write_text(KEY)
    words = ["restore", "--check", "--json", "--key", str(key), str(made.path)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    description = json.loads(done.stdout)
    assert (description["house"], description["bytes"] > 0, description["damaged"]) == (
        "house",
        True,
        {},
    )
    assert description["volumes"] == [
        {"service": "open_webui", "path": str(data), "copy_as": "files"}
    ]
    assert "hush" not in done.output
    # The key may also come through a pipe, which no list of processes shows.
    piped = CliRunner().invoke(app, ["restore", "--check", str(made.path)], input=f"{KEY}\n")
    assert piped.exit_code == 0, piped.output
    assert "1 secrets" in piped.stdout


def test_the_oldest_go_and_only_whole_backups_of_this_house(tmp_path: Path) -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    ours = [file_name("house", now + timedelta(days=day)) for day in range(5)]
    others = ["hearth-other-20200101T000000Z.tar.age", "holiday.jpg", f"{PART}house-x"]
    others.append("hearth-house-20200101T000000Z.tar.age.old")
    for name in (*ours, *others):
        (tmp_path / name).touch()
    removed = rotate(tmp_path / ours[-1], "house", 3)
    assert [path.name for path in removed] == ours[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*ours[2:], *others])


@pytest.mark.parametrize("year", [1970, 2026])
def test_a_wrong_clock_removes_neither_what_was_just_made_nor_what_is_younger(
    tmp_path: Path, year: int
) -> None:
    young = [file_name("house", datetime(2038, 1, day, tzinfo=UTC)) for day in (1, 2, 3)]
    old = [file_name("house", datetime(year, 1, day, tzinfo=UTC)) for day in (1, 2, 3)]
    for name in (*young, *old):
        (tmp_path / name).touch()
    removed = rotate(tmp_path / old[-1], "house", 2)
    assert [path.name for path in removed] == old[:1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*old[1:], *young]


def test_what_can_be_fetched_again_is_not_taken() -> None:
    house = derive(load(ROOT / "inventory"))
    taken = {(one.service, one.path): one.copy_as for one in data_folders(house)}
    assert taken[("open_webui", "/var/lib/open-webui")] == "sqlite"
    all_folders = {
        (service.name, volume.path): volume.copy
        for service in house.services.values()
        for volume in service.volumes
    }
    assert taken == {key: kind for key, kind in all_folders.items() if kind != "none"}


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    made = units(str(ROOT), "/mnt/my backups/100%", "12:30")
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    argv = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in made)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "OnCalendar=*-*-* 12:30:00" in made["hearth-backup.timer"]
    service = made["hearth-backup.service"]
    assert 'ReadWritePaths=/run /var/lib/hearth "-/mnt/my backups/100%%"' in service
    # Incus is a socket of this machine: a backup needs no network.
    assert "PrivateNetwork=yes" in service
    assert "MemoryMax=1G" in service

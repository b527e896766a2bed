"""What Hearth put onto a machine is found by its traces, and people's own lines stay."""

import json
from pathlib import Path

import pytest

from hearth.remove import machine

HOSTS = "127.0.0.1 localhost\n# BEGIN Hearth\n10.0.0.1 chat.lan\n# END Hearth\n10.0.0.2 nas\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("etc/systemd/system", "etc/sysusers.d", "etc/hearth", "etc/sysctl.d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "var/lib/hearth/converged").mkdir(parents=True)
    monkeypatch.setattr(machine, "_ran", lambda *argv: True)
    monkeypatch.setattr(machine, "_loaded", set)
    return tmp_path


def test_every_unit_goes_and_the_firewalls_last(root: Path) -> None:
    units = root / machine.UNITS
    for name in ("hearth-caddy.service", "hearth-backup.timer", "ssh.service"):
        (units / name).touch()
    (units / machine.FIREWALL).write_text("ExecStart=ip address replace 10.1.0.1/32 dev lo; nft\n")
    said = [trace.what for trace in machine.units(root)]
    assert said == ["unit hearth-backup.timer", "unit hearth-caddy.service"]
    last = [trace.what for trace in machine.firewall(root)]
    assert last == [
        "address 10.1.0.1/32 of lo",
        "rules: table inet hearth",
        "routing rules 302, 303, 301, 304",
        "unit hearth-firewall.service",
    ]
    for trace in (*machine.units(root), *machine.firewall(root)):
        trace.remove()
    assert [path.name for path in units.iterdir()] == ["ssh.service"]


def test_recorded_files_go_and_others_stay(root: Path) -> None:
    ours = [root / "etc/sysctl.d/60-hearth.conf", root / "etc/hearth/login.json"]
    for path in (*ours, root / "etc/sysctl.d/local.conf"):
        path.touch()
    record = {"digest": "", "files": ["/etc/hearth/login.json", "/etc/hearth/gone-already"]}
    (root / "var/lib/hearth/converged/login.json").write_text(json.dumps(record))
    (root / "var/lib/hearth/converged/cut.json").write_text("{")
    for trace in machine.settings(None, root):
        trace.remove()
    assert not any(path.exists() for path in ours)
    assert (root / "etc/sysctl.d/local.conf").exists()


def test_of_etc_hosts_only_the_houses_lines_go(root: Path) -> None:
    hosts = root / "etc/hosts"
    hosts.write_text(HOSTS)
    for trace in machine.settings(None, root):
        trace.remove()
    assert hosts.read_text() == "127.0.0.1 localhost\n10.0.0.2 nas\n"
    assert machine.settings(None, root) == []


def test_users_are_those_that_our_files_name(root: Path) -> None:
    (root / "etc/sysusers.d/hearth-login.conf").write_text('u root - "Hearth" -\n')
    (root / "etc/sysusers.d/other.conf").write_text("u daemon -\n")
    said = [trace.what for trace in machine.users(root)]
    assert said == ["user root", f"file {root}/etc/sysusers.d/hearth-login.conf"]


def test_folders_and_links_go_whole_and_what_is_not_there_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "folder/deep").mkdir(parents=True)
    paths = [tmp_path / name for name in ("link", "folder", "nothing")]
    for trace in machine.folders(paths):
        trace.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept/file").exists()

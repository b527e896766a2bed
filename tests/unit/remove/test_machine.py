"""What Hearth put onto a machine is found by its traces, and people's own lines stay."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hearth.paths import FIREWALL_UNIT
from hearth.remove import RemoveError, machine
from hearth.remove.before import Before

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
    (units / FIREWALL_UNIT).write_text("ExecStart=ip address replace 10.1.0.1/32 dev lo; nft\n")
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


def test_what_people_added_to_a_unit_goes_with_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(machine, "_ran", lambda *argv: asked.append(argv[-1]))
    folder = root / machine.UNITS / "hearth-caddy.service.d"
    folder.mkdir()
    (folder / "override.conf").write_text("[Service]\nNice=5\n")
    folder.with_suffix("").touch()
    for trace in machine.units(root):
        trace.remove()
    assert list((root / machine.UNITS).iterdir()) == []
    assert "hearth-caddy.service" in asked
    # It is no unit.
    assert folder.name not in asked


def test_recorded_files_go_and_others_stay(root: Path) -> None:
    ours = [root / "etc/sysctl.d/60-hearth.conf", root / "etc/hearth/login.json"]
    for path in (*ours, root / "etc/sysctl.d/local.conf"):
        path.touch()
    record = {"digest": "", "files": ["/etc/hearth/login.json", "/etc/hearth/gone-already"]}
    (root / "var/lib/hearth/converged/login.json").write_text(json.dumps(record))
    (root / "var/lib/hearth/converged/cut.json").write_text("{")
    for trace in machine.settings(Before(), root):
        trace.remove()
    assert not any(path.exists() for path in ours)
    assert (root / "etc/sysctl.d/local.conf").exists()


def test_of_etc_hosts_only_the_houses_lines_go(root: Path) -> None:
    hosts = root / "etc/hosts"
    hosts.write_text(HOSTS)
    for trace in machine.settings(Before(), root):
        trace.remove()
    assert hosts.read_text() == "127.0.0.1 localhost\n10.0.0.2 nas\n"
    assert machine.settings(Before(), root) == []


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


def test_a_setting_stays_that_somebody_elses_network_lives_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "kernel_value", lambda name: "1")
    forward, mark = "net.ipv4.ip_forward", "net.ipv4.conf.all.src_valid_mark"
    values = {forward: "0", mark: "0", "fs.inotify.max_user_instances": "1"}
    seen = Before(known=True, kernel=values)
    both = [f"kernel setting {name}, which was 0" for name in (forward, mark)]
    assert [trace.what for trace in machine.settings(seen, root)] == both
    assert machine.settings_in_use(seen, root) == {}
    devices = root / "sys/class/net"
    for name, text in (("docker0", "DEVTYPE=bridge\n"), ("eth0", "IFINDEX=2\n")):
        (devices / name).mkdir(parents=True)
        (devices / name / "uevent").write_text(text)
    assert machine.settings_in_use(seen, root) == {forward: "the bridge docker0 may need it"}
    assert [trace.what for trace in machine.settings(seen, root)] == both[1:]
    # It was there, and lived without.
    was = replace(seen, paths=frozenset({"/sys/class/net/docker0"}))
    assert machine.settings_in_use(was, root) == {}
    (devices / "docker0/uevent").write_text("DEVTYPE=wireguard\n")
    assert {*machine.settings_in_use(seen, root)} == {forward, mark}
    assert machine.settings(seen, root) == []


def mounted(root: Path, monkeypatch: pytest.MonkeyPatch, *places: Path, busy: bool) -> list[str]:
    """Let these be mounts; what `umount` is asked for, is gone unless it is busy."""
    table, asked = root / "mounts", list[str]()

    def write(left: list[Path]) -> None:
        rows = [f"disk {str(place).replace(' ', chr(92) + '040')} ext4 rw 0 0\n" for place in left]
        table.write_text("".join(rows))

    def ran(*argv: str) -> bool:
        asked.append(argv[-1])
        write([place for place in places if busy or str(place) not in asked])
        return not busy

    write([*places])
    monkeypatch.setattr(machine, "MOUNTS", table)
    monkeypatch.setattr(machine, "_ran", ran)
    return asked


def test_nothing_is_deleted_through_a_mount(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = root / "folder/a disk"
    disk.mkdir(parents=True)
    (disk / "theirs").touch()
    mounted(root, monkeypatch, disk, busy=True)
    with pytest.raises(RemoveError, match=r"a disk cannot be unmounted: .*, then run this again$"):
        machine.drop_path(root / "folder")
    assert (disk / "theirs").exists()
    assert mounted(root, monkeypatch, disk, busy=False) == []
    machine.drop_path(root / "folder")
    assert not (root / "folder").exists()


def test_a_folder_that_is_a_disk_is_emptied_before_it_is_unmounted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "programs"
    (folder / "ollama").mkdir(parents=True)
    asked = mounted(root, monkeypatch, folder, busy=True)
    with pytest.raises(RemoveError, match="programs cannot be unmounted"):
        machine.drop_path(folder)
    assert asked == [str(folder)]
    assert list(folder.iterdir()) == []
    mounted(root, monkeypatch, folder, busy=False)
    machine.drop_path(folder)
    assert not folder.exists()

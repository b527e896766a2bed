"""Hearth's traces on a machine are found and removed, and people's own lines stay."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hearth.machine.environment import UNITS
from hearth.paths import FIREWALL_UNIT
from hearth.remove import RemoveError, whole_house
from hearth.remove.before import Before

HOSTS = "127.0.0.1 localhost\n# BEGIN Hearth\n10.0.0.1 chat.lan\n# END Hearth\n10.0.0.2 nas\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("etc/systemd/system", "etc/sysusers.d", "etc/hearth", "etc/sysctl.d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "var/lib/hearth/converged").mkdir(parents=True)
    monkeypatch.setattr(whole_house, "_ran", lambda *argv: True)
    monkeypatch.setattr(whole_house, "_loaded", set)
    return tmp_path


def test_every_unit_is_removed_and_the_firewalls_last(root: Path) -> None:
    units = root / UNITS
    for name in (
        "hearth-caddy.service",
        "hearth-backup.timer",
        "hearth-sandboxes.path",
        "ssh.service",
    ):
        (units / name).touch()
    (units / FIREWALL_UNIT).write_text("ExecStart=ip address replace 10.1.0.1/32 dev lo; nft\n")
    first = [trace.what for trace in whole_house.units(root)]
    # First those that would start others again.
    assert first == [
        *("unit hearth-backup.timer", "unit hearth-sandboxes.path", "unit hearth-caddy.service"),
    ]
    last = [trace.what for trace in whole_house.firewall(root)]
    assert last == [
        "address 10.1.0.1/32 of lo",
        "rules: table inet hearth",
        "routing rules 302, 303, 301, 304",
        "unit hearth-firewall.service",
    ]
    for trace in (*whole_house.units(root), *whole_house.firewall(root)):
        trace.remove()
    assert [path.name for path in units.iterdir()] == ["ssh.service"]


def test_drop_ins_of_a_unit_are_removed_with_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    monkeypatch.setattr(whole_house, "_ran", lambda *argv: named.append(argv[-1]))
    folder = root / UNITS / "hearth-caddy.service.d"
    folder.mkdir()
    (folder / "override.conf").write_text("[Service]\nNice=5\n")
    folder.with_suffix("").touch()
    for trace in whole_house.units(root):
        trace.remove()
    assert list((root / UNITS).iterdir()) == []
    assert "hearth-caddy.service" in named
    # The folder is not a unit.
    assert folder.name not in named


def test_recorded_files_are_removed_and_others_stay(root: Path) -> None:
    ours = [root / "etc/sysctl.d/60-hearth.conf", root / "etc/hearth/login.json"]
    for path in (*ours, root / "etc/sysctl.d/local.conf"):
        path.touch()
    record = {"digest": "", "files": ["/etc/hearth/login.json", "/etc/hearth/gone-already"]}
    (root / "var/lib/hearth/converged/login.json").write_text(json.dumps(record))
    (root / "var/lib/hearth/converged/cut.json").write_text("{")
    for trace in whole_house.settings(Before(), root):
        trace.remove()
    assert not any(path.exists() for path in ours)
    assert (root / "etc/sysctl.d/local.conf").exists()


def test_only_the_houses_lines_of_etc_hosts_are_removed(root: Path) -> None:
    hosts = root / "etc/hosts"
    hosts.write_text(HOSTS)
    for trace in whole_house.settings(Before(), root):
        trace.remove()
    assert hosts.read_text() == "127.0.0.1 localhost\n10.0.0.2 nas\n"
    assert whole_house.settings(Before(), root) == []


def test_users_are_those_that_our_files_name(root: Path) -> None:
    (root / "etc/sysusers.d/hearth-login.conf").write_text('u root - "Hearth" -\n')
    (root / "etc/sysusers.d/other.conf").write_text("u daemon -\n")
    found = [trace.what for trace in whole_house.users(root)]
    assert found == ["user root", f"file {root}/etc/sysusers.d/hearth-login.conf"]


def test_folders_and_links_are_removed_whole_and_missing_ones_are_not_listed(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "folder/deep").mkdir(parents=True)
    paths = [tmp_path / name for name in ("link", "folder", "nothing")]
    for trace in whole_house.folders(paths):
        trace.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept/file").exists()


def test_a_kernel_setting_stays_that_another_network_needs(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_house, "kernel_value", lambda name: "1")
    forward, mark = "net.ipv4.ip_forward", "net.ipv4.conf.all.src_valid_mark"
    values = {forward: "0", mark: "0", "fs.inotify.max_user_instances": "1"}
    seen = Before(known=True, kernel=values)
    both = [f"kernel setting {name}, which was 0" for name in (forward, mark)]
    assert [trace.what for trace in whole_house.settings(seen, root)] == both
    assert whole_house.settings_in_use(seen, root) == {}
    devices = root / "sys/class/net"
    for name, text in (("docker0", "DEVTYPE=bridge\n"), ("eth0", "IFINDEX=2\n")):
        (devices / name).mkdir(parents=True)
        (devices / name / "uevent").write_text(text)
    assert whole_house.settings_in_use(seen, root) == {forward: "the bridge docker0 may need it"}
    assert [trace.what for trace in whole_house.settings(seen, root)] == both[1:]
    # It was there before, and worked without the setting.
    was = replace(seen, paths=frozenset({"/sys/class/net/docker0"}))
    assert whole_house.settings_in_use(was, root) == {}
    (devices / "docker0/uevent").write_text("DEVTYPE=wireguard\n")
    assert {*whole_house.settings_in_use(seen, root)} == {forward, mark}
    assert whole_house.settings(seen, root) == []


def mounted(root: Path, monkeypatch: pytest.MonkeyPatch, *places: Path, busy: bool) -> list[str]:
    """Let these be mounts, which `umount` removes unless they are busy; return its arguments."""
    table, requested = root / "mounts", list[str]()

    def write(left: list[Path]) -> None:
        rows = [f"disk {str(place).replace(' ', chr(92) + '040')} ext4 rw 0 0\n" for place in left]
        table.write_text("".join(rows))

    def ran(*argv: str) -> bool:
        requested.append(argv[-1])
        write([place for place in places if busy or str(place) not in requested])
        return not busy

    write([*places])
    monkeypatch.setattr(whole_house, "MOUNTS", table)
    monkeypatch.setattr(whole_house, "_ran", ran)
    return requested


def test_nothing_is_deleted_through_a_mount(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = root / "folder/a disk"
    disk.mkdir(parents=True)
    (disk / "theirs").touch()
    mounted(root, monkeypatch, disk, busy=True)
    with pytest.raises(RemoveError, match=r"a disk cannot be unmounted: .*, then run this again$"):
        whole_house.drop_path(root / "folder")
    assert (disk / "theirs").exists()
    assert mounted(root, monkeypatch, disk, busy=False) == []
    whole_house.drop_path(root / "folder")
    assert not (root / "folder").exists()


def test_a_folder_that_is_a_disk_is_emptied_before_it_is_unmounted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "programs"
    (folder / "ollama").mkdir(parents=True)
    requested = mounted(root, monkeypatch, folder, busy=True)
    with pytest.raises(RemoveError, match="programs cannot be unmounted"):
        whole_house.drop_path(folder)
    assert requested == [str(folder)]
    assert list(folder.iterdir()) == []
    mounted(root, monkeypatch, folder, busy=False)
    whole_house.drop_path(folder)
    assert not folder.exists()

"""What the lab writes for other programs and reads from them."""

import re
from pathlib import Path

import pytest

from tests.lab_machine import (
    base,
    boot,
    disk,
    groups,
    inside,
    links,
    package_cache,
    packages,
    resolver,
)
from tests.lab_machine.command import LabError
from tests.lab_machine.model import Machine

HOUSE = Machine("try", 4, 10, 1, names={"github.com": "10.99.4.1"}, binds={"/srv/a": "/mnt/a"})


def test_the_rules_keep_labs_apart_and_are_one_table() -> None:
    text = links.ruleset([HOUSE, Machine("g", 4, 20, 1, house="try"), Machine("b", 5, 10, 1)])
    assert re.findall(r"^table .*", text, re.MULTILINE) == ["table inet hearth_lab {"]
    drops = re.findall(r"ip saddr (\S+) ip daddr 10.99.0.0/16 ip daddr != (\S+) drop", text)
    assert drops == [("10.99.4.0/24", "10.99.4.0/24"), ("10.99.5.0/24", "10.99.5.0/24")]
    assert 'iifname != { "lo", "hl-*" } tcp dport 3142 drop' in text
    assert "masquerade" in text
    assert "tcp dport 443 ip daddr { 10.99.4.1, 10.99.5.1 } redirect to :8443" in text
    assert "tcp dport 443 ip daddr { 10.99.0.1 }" in links.ruleset([])


def test_networks_in_use_are_found() -> None:
    text = (
        "2: eth0    inet 192.0.2.2/24 scope global eth0\\n"
        "3: host0    inet 10.99.12.10/24 brd 10.99.12.255 scope global host0\\n"
    )
    assert links.parse_nets(text) == {12}


def test_the_resolver_keeps_every_question_about_a_mapped_name() -> None:
    lines = resolver.config(HOUSE, ["192.0.2.53"]).splitlines()
    assert "local=/github.com/" in lines
    assert "address=/github.com/10.99.4.1" in lines
    assert "server=192.0.2.53" in lines
    assert "listen-address=10.99.4.1" in lines
    assert {"no-hosts", "no-resolv", "bind-interfaces"} <= set(lines)


def test_upstream_resolvers_are_parsed() -> None:
    text = "# x\nsearch lan\nnameserver 192.0.2.53\nnameserver  2001:db8::53\nnameserver\n"
    assert resolver.upstreams(text) == ["192.0.2.53", "2001:db8::53"]


@pytest.mark.parametrize(
    ("name", "address", "error"),
    [
        ("github.com/", "10.99.1.1", "not a valid host name"),
        ("a\nserver=1.2.3.4", "10.99.1.1", "not a valid host name"),
        ("", "10.99.1.1", "not a valid host name"),
        ("github.com", "far", "not a valid address"),
    ],
)
def test_an_invalid_mapping_is_rejected(name: str, address: str, error: str) -> None:
    with pytest.raises(LabError, match=error):
        resolver.check_names({name: address})


def test_valid_mappings_are_accepted() -> None:
    names = {"github.com": "10.99.1.1", "a.b-c.example": "2001:db8::1"}
    assert resolver.check_names(names) == names


def test_the_cache_goes_through_the_proxy_of_its_machine() -> None:
    assert "Proxy" not in package_cache.config(Path("/c"), Path("/l"), "")
    text = package_cache.config(Path("/c"), Path("/l"), "http://192.0.2.1:3128")
    assert "Proxy: http://192.0.2.1:3128\n" in text


def test_a_machine_finds_its_link_and_its_cache() -> None:
    files = boot.settings(HOUSE)
    assert (
        "Address=10.99.4.10/24\nGateway=10.99.4.1\n"
        in files["etc/systemd/network/10-host0.network"]
    )
    assert files["etc/resolv.conf"] == "nameserver 10.99.4.1\n"
    assert '"http://10.99.4.1:3142"' in files["etc/apt/apt.conf.d/02hearth-lab-cache"]


def test_the_start_command_has_link_root_and_bind_mounts() -> None:
    words = boot.command(HOUSE)
    assert "--network-bridge=hl-try" in words
    assert "--directory=/var/lib/hearth-lab/try/mount/root" in words
    assert "--bind=/srv/a:/mnt/a" in words
    assert "--bind=/var/cache/hearth-lab/uv:/root/.cache/uv" in words


def test_the_name_of_the_base_depends_on_the_certificate() -> None:
    assert base.digest({}) == base.digest({})
    assert base.digest({"a.crt": b"1"}) != base.digest({"a.crt": b"2"}) != base.digest({})


def test_the_name_of_the_base_depends_on_packages_but_not_on_their_order() -> None:
    assert base.digest({}, ["chromium", "nodejs"]) == base.digest({}, ["nodejs", "chromium"])
    assert base.digest({}, ["chromium"]) != base.digest({}, ["nodejs"])
    assert base.digest({}, []) == base.digest({}) != base.digest({}, ["nodejs"])


def test_mounts_below_a_folder_are_found_even_with_spaces() -> None:
    text = (
        "22 1 8:1 / / rw - ext4 /dev/vda rw\n"
        "30 22 0:5 / /var/lib/hearth-lab/a/mount rw - btrfs /dev/loop0 rw\n"
        "31 22 0:6 / /var/lib/hearth-lab/ab/mount rw - btrfs /dev/loop1 rw\n"
        "32 30 0:7 / /var/lib/hearth-lab/a/mount/root/x\\040y rw - tmpfs tmpfs rw\n"
    )
    found = disk.parse_mounts(text, Path("/var/lib/hearth-lab/a"))
    assert [str(path) for path in found] == [
        "/var/lib/hearth-lab/a/mount",
        "/var/lib/hearth-lab/a/mount/root/x y",
    ]


def test_a_folder_bound_onto_itself_is_not_yet_its_disk() -> None:
    mount = Path("/var/lib/hearth-lab/a/mount")
    bound = f"30 22 0:5 /root{mount} {mount} rw shared:9 - btrfs /dev/loop0 rw\n"
    disk_text = f"31 30 0:6 / {mount} rw,noatime shared:9 - btrfs /dev/loop1 rw\n"
    assert not disk.is_attached(bound, mount)
    assert disk.is_attached(bound + disk_text, mount)
    assert len(disk.parse_mounts(bound + disk_text, mount)) == 2


def test_nested_subvolumes_follow_their_parents() -> None:
    listing = (
        "ID 256 gen 24 top level 5 path root\n"
        "ID 259 gen 24 top level 257 path root/opt/a/b\n"
        "ID 257 gen 24 top level 256 path root/opt/a\n"
        "ID 258 gen 24 top level 5 path saved/first\n"
        "ID 260 gen 24 top level 5 path root2/x\n"
    )
    assert disk.parse_nested(listing, "root") == [Path("opt/a"), Path("opt/a/b")]


def test_only_the_first_process_of_another_namespace_is_a_leader() -> None:
    assert inside.is_first_of_its_namespace("Name:\tsystemd\nNSpid:\t300\t1\n")
    assert inside.is_first_of_its_namespace("NSpid:\t300\t20\t1\n")
    assert not inside.is_first_of_its_namespace("NSpid:\t1\n")
    assert not inside.is_first_of_its_namespace("NSpid:\t300\t7\n")
    assert not inside.is_first_of_its_namespace("Name:\tx\n")


def test_cgroup_trees_are_found(tmp_path: Path) -> None:
    assert groups.hierarchies(tmp_path) == [tmp_path]
    for name in ("unified", "systemd", "cpu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    assert groups.hierarchies(tmp_path) == [tmp_path / "unified", tmp_path / "systemd"]


def test_cgroups_of_a_process_are_parsed() -> None:
    text = "4:memory:/a\n1:name=systemd:/b:c\n0::/d\n"
    assert groups.parse_groups(text) == {"memory": "/a", "name=systemd": "/b:c", "": "/d"}


def test_packages_that_a_purge_would_also_remove_are_found() -> None:
    rehearsal = "Reading...\nPurg mmdebstrap [1.3]\nRemv other [2] [more ]\nInst x\n"
    assert packages.removals(rehearsal) == {"mmdebstrap", "other"}


def test_a_package_that_others_now_depend_on_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Done:
        stdout = "Purg dnsmasq-base [1]\nRemv somebodys [2]\n"

    def call(argv: list[str], **_: object) -> Done:
        calls.append(" ".join(argv))
        return Done()

    monkeypatch.setattr(packages, "call", call)
    monkeypatch.setattr(packages, "_packages", lambda: {"dnsmasq-base", "somebodys"})
    packages.purge(packages.Installed(("dnsmasq-base", "gone"), ()))
    assert len(calls) == 1
    assert "--simulate purge dnsmasq-base" in calls[0]

"""What is read of a machine, from folders that look like one."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.machine import facts
from hearth.machine.facts import FactsError, Listener
from tests.unit.machine.samples import HOUSE

ROUTE = ("-4", "route", "show", "default")
ADDRESSES = ("address", "show")
AUTO = replace(
    HOUSE.machine,
    lan_interface="auto",
    lan_address="auto",
    upstream_dns="auto",
    resolver_address="10.140.30.1",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "etc/os-release": 'ID=debian\nVERSION_ID="13"\n',
        "etc/resolv.conf": "search lan\nnameserver 127.0.0.53\n",
        "run/systemd/resolve/resolv.conf": "nameserver 192.0.2.1\nnameserver 192.0.2.2\n",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD Ryzen 7: the quick one\n",
        "proc/meminfo": "MemTotal:       16384000 kB\nMemFree: 1 kB\n",
        "var/keep": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def link(name: str, *addresses: str) -> dict[str, Any]:
    """An interface as `ip` shows it, with what an address of each kind is called there."""
    rows: list[dict[str, Any]] = [{"family": "inet6", "local": "fe80::1", "scope": "link"}]
    for address in addresses:
        family = "inet6" if ":" in address else "inet"
        length = 64 if ":" in address else 24
        rows.append({"family": family, "local": address, "scope": "global", "prefixlen": length})
    return {"ifname": name, "addr_info": rows}


def wire(monkeypatch: pytest.MonkeyPatch, answers: dict[tuple[str, ...], Any]) -> None:
    monkeypatch.setattr(facts, "ip", lambda *words: answers[words])


def card(root: Path, name: str, driver: str) -> None:
    """A render node as the kernel shows it."""
    drivers = root / "sys/bus/pci/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    device = root / "sys/class/drm" / name / "device"
    device.mkdir(parents=True)
    (device / "driver").symlink_to(drivers)
    node = root / "dev/dri" / name
    node.parent.mkdir(parents=True, exist_ok=True)
    node.touch()


def test_a_whole_machine_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire(
        monkeypatch,
        {
            ROUTE: [{"dev": "lan0"}],
            ADDRESSES: [link("lan0", "2001:db8::2", "192.0.2.10", "192.0.2.11")],
        },
    )
    card(root, "renderD128", "amdgpu")
    (root / "dev/nvidia0").touch()
    read = facts.read_facts(AUTO, root)
    assert (read.debian, facts.cpu_name(root)) == ("13", "AMD Ryzen 7: the quick one")
    assert read.memory_bytes == 16384000 * 1024
    assert (read.lan_interface, read.lan_address) == ("lan0", "192.0.2.10")
    assert read.lan_networks == ("192.0.2.0/24",)
    assert read.upstream_dns == ("192.0.2.1", "192.0.2.2")
    assert read.graphics.render_nodes == ("/dev/dri/renderD128",)
    assert read.graphics.nvidia_card
    assert read.disk_free_bytes > 0


@pytest.mark.parametrize("driver", sorted(facts.SOFTWARE_DRIVERS))
def test_a_software_renderer_is_not_a_card(root: Path, driver: str) -> None:
    card(root, "renderD128", driver)
    assert list(facts.render_nodes(root)) == []
    assert not facts.has_card(root)


def test_a_program_with_a_private_dev_knows_of_a_card(root: Path) -> None:
    assert not facts.has_card(root)
    card(root, "renderD128", "amdgpu")
    (root / "dev/dri/renderD128").unlink()
    assert facts.has_card(root)


def test_nvidias_card_without_a_render_node_is_one(root: Path) -> None:
    (root / "sys/bus/pci/drivers/nvidia").mkdir(parents=True)
    assert facts.has_card(root)


def test_a_card_without_its_device_node_is_ignored(root: Path) -> None:
    card(root, "renderD128", "amdgpu")
    (root / "dev/dri/renderD128").unlink()
    assert list(facts.render_nodes(root)) == []


def test_cards_come_in_order(root: Path) -> None:
    card(root, "renderD129", "i915")
    card(root, "renderD128", "amdgpu")
    assert list(facts.render_nodes(root)) == ["/dev/dri/renderD128", "/dev/dri/renderD129"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "12"),
        ("ID=ubuntu\nVERSION_ID=24.04\n", "not Debian"),
        ("ID=debian\n", ""),
        ("", "not Debian"),
    ],
)
def test_the_version_of_debian(root: Path, text: str, version: str) -> None:
    (root / "etc/os-release").write_text(text)
    assert facts.debian_version(root) == version


def test_the_house_is_never_told_to_ask_itself(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = [link("lan0", "2001:db8::2", "192.0.2.10"), link("tun0", "192.0.2.1")]
    wire(monkeypatch, {ROUTE: [{"dev": "lan0"}], ADDRESSES: links})
    read = facts.read_facts(AUTO, root)
    assert (read.upstream_dns, read.upstream_known) == (("192.0.2.2",), "known")
    assert facts.addresses("lan0") == ["fe80::1", "2001:db8::2", "192.0.2.10"]


def test_what_the_record_names_wins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A machine without a way out has no default route; its LAN is named.
    links = [link("lan0", "192.0.2.77"), link("wlan0", "198.51.100.7")]
    wire(monkeypatch, {ROUTE: [], ADDRESSES: links})
    read = facts.read_facts(replace(AUTO, lan_interface="lan0"), root)
    assert (read.lan_interface, read.lan_address) == ("lan0", "192.0.2.77")
    own = replace(AUTO, lan_interface="lan0", lan_address="192.0.2.78")
    assert facts.read_facts(own, root).lan_address == "192.0.2.78"
    dns = facts.read_facts(replace(own, upstream_dns=("9.9.9.9",)), root)
    assert dns.upstream_dns == ("9.9.9.9",)


def test_a_machine_without_a_default_route_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wire(monkeypatch, {ROUTE: []})
    with pytest.raises(FactsError) as caught:
        facts.lan()
    assert str(caught.value) == (
        "this machine has no default IPv4 route: connect it, or write lan_interface, the interface "
        "of your LAN, into inventory/local/machines.yml"
    )


def test_an_interface_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wire(monkeypatch, {ADDRESSES: [link("lan0", "2001:db8::2")]})
    with pytest.raises(FactsError) as caught:
        facts.address_of("lan0")
    assert str(caught.value) == ("interface lan0 has no IPv4 address; give it one, or name another")


def test_an_interface_that_is_not_there_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = [link(name, "192.0.2.10") for name in ("lo", "eth0", "to-ollama", "wlan0")]
    wire(monkeypatch, {ADDRESSES: links})
    with pytest.raises(FactsError) as caught:
        facts.lan("enp3s1")
    assert str(caught.value) == (
        "this machine has no interface enp3s1, but eth0, wlan0: write one of these, or auto, as "
        "lan_interface into inventory/local/machines.yml"
    )


def test_a_mistyped_interface_is_a_line_on_a_real_machine() -> None:
    with pytest.raises(FactsError, match="this machine has no interface nowhere0"):
        facts.address_of("nowhere0")


def test_listeners_are_read_as_ss_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = (
        'udp UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:* users:(("resolved",pid=8,fd=5))\n'
        'tcp LISTEN 0 4096 0.0.0.0:443 0.0.0.0:* users:(("caddy",pid=7,fd=5))\n'
        "tcp LISTEN 0 128 [::]:22 [::]:*\n"
    )

    def ss(argv: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        assert argv[1] == "-Hlntup"
        return subprocess.CompletedProcess(argv, 0, shown, "")

    monkeypatch.setattr(subprocess, "run", ss)
    monkeypatch.setattr(facts, "_unit_of", lambda pid: f"unit-of-{pid}.service")
    assert facts.listeners() == [
        Listener("udp", "127.0.0.53", 53, "unit-of-8.service"),
        Listener("tcp", "0.0.0.0", 443, "unit-of-7.service"),
        Listener("tcp", "::", 22, ""),
    ]

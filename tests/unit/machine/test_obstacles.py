"""What house and machine do not agree on is one line each, before anything changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.catalogue import House, derive, load
from hearth.machine.conflicts import obstacles, own_folders, remarks
from hearth.machine.environment import Claim, Surroundings
from hearth.machine.facts import Listener
from tests.unit.machine.samples import GIB, facts

BASE = Path(__file__).parents[2] / "fixtures/catalogue/base"
MORE_MODELS = (
    "name a folder on another disk (`from:` in the service's data), or take models out in "
    "inventory/local/models.yml and aliases.yml"
)


@pytest.fixture(scope="module")
def house() -> House:
    return derive(load(BASE))


def test_nothing_stands_in_the_way_of_a_good_machine(house: House) -> None:
    around = Surroundings(networks=(("lan0", "192.0.2.0/24"), ("docker0", "172.17.0.0/16")))
    own = [Listener("tcp", "127.0.0.1", 9180, "hearth-login.service")]
    assert obstacles(house, facts(), around, own) == []
    assert remarks(house, facts(), around) == []


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        ({"root": False}, "a house is built by root: say `sudo` before the command"),
        (
            {"tun": False},
            "there is no /dev/net/tun, so this is a container or has a cut-down kernel, and cannot "
            "carry instances: use a whole machine, or `modprobe tun` and let its host pass it in",
        ),
        (
            {"hidden": ("/etc/systemd/system/caddy.service",)},
            "/etc/systemd/system/caddy.service is yours, and the house masks that name, so that "
            "Debian's own Caddy does not start: disable it, and move it to another name",
        ),
        (
            {"networks": (("lan0", "192.0.2.0/24"), ("virbr1", "10.140.0.0/16"))},
            "10.140.30.0/24, the range for instances, is in use on this machine: virbr1 has "
            "10.140.0.0/16: write another one, e.g. instances: 172.29.30.0/24, into "
            "inventory/local/machines.yml (`hearth check` then names the addresses to change)",
        ),
        (
            {
                "claims": (
                    Claim("192.0.2.1", "debian.lan", "192.0.2.10"),
                    Claim("192.0.2.1", "llm.lan", "192.0.2.77"),
                )
            },
            "192.0.2.1 answers for names in lan already (debian.lan is 192.0.2.10 there), and a "
            "domain has one resolver: write another one, e.g. domain: home.arpa, into "
            "inventory/local/machines.yml, or take those names out of it",
        ),
    ],
)
def test_what_stands_in_the_way_is_one_line(house: House, seen: dict[str, Any], line: str) -> None:
    assert obstacles(house, facts(), Surroundings(**seen)) == [line]


def test_a_clock_before_this_debian_is_refused_and_a_free_one_is_said(house: House) -> None:
    (line,) = obstacles(house, facts(), Surroundings(clock="early"))
    assert line.startswith("the clock shows 20")
    assert "set it (`timedatectl set-time`) and install systemd-timesyncd" in line
    assert obstacles(house, facts(), Surroundings(clock="free")) == []
    (line,) = remarks(house, facts(), Surroundings(clock="free"))
    assert line.endswith("install systemd-timesyncd")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "*"])
def test_a_port_of_a_part_that_somebody_holds_is_refused(house: House, address: str) -> None:
    held = [
        Listener("tcp", address, 9180, "jellyfin.service"),
        Listener("udp", address, 9180, "other.service"),
        Listener("tcp", "192.0.2.10", 9180, "other.service"),
    ]
    assert obstacles(house, facts(), Surroundings(), held) == [
        "port 9180/tcp is held by jellyfin.service; the part login needs it: stop that program, "
        "or give login another port in inventory/local/services.yml"
    ]


WRITE = "write your router's address, e.g. upstream_dns: [192.168.1.1], into inventory/local"


def test_a_machine_that_asks_itself_for_names_is_refused_and_a_house_is_told(house: House) -> None:
    bare = facts(upstream_dns=(), upstream_known="itself")
    (line,) = obstacles(house, bare, Surroundings())
    assert line == (
        "this machine knows no DNS server but itself now, so devices would find no name of the "
        f"rest of the world: {WRITE}/machines.yml"
    )
    assert remarks(house, bare, Surroundings()) == []
    built = facts(upstream_dns=(), upstream_known="itself", built=True)
    assert obstacles(house, built, Surroundings()) == []
    assert remarks(house, built, Surroundings()) == [line]


def test_a_machine_that_knows_nobody_is_told(house: House) -> None:
    without = facts(upstream_dns=(), upstream_known="none")
    assert obstacles(house, without, Surroundings()) == []
    (line,) = remarks(house, without, Surroundings())
    assert line.startswith("this machine knows no DNS server now, so devices would find no name")
    kept = facts(upstream_dns=("192.0.2.1",), upstream_known="kept", built=True)
    assert obstacles(house, kept, Surroundings()) == []
    assert remarks(house, kept, Surroundings()) == [
        "this machine knows no DNS server but itself now, so the house goes on asking 192.0.2.1: "
        "write your router's address, e.g. upstream_dns: [192.0.2.1], into "
        "inventory/local/machines.yml"
    ]


def test_a_lan_that_is_the_internet_is_refused_unless_somebody_says_so(house: House) -> None:
    rented = facts(lan_address="9.9.9.9")
    (line,) = obstacles(house, rented, Surroundings())
    assert line.startswith("9.9.9.9, this machine's address on its LAN, is one of the internet's")
    assert line.endswith("write lan_address: 9.9.9.9 into inventory/local/machines.yml")
    assert remarks(house, rented, Surroundings()) == []
    named = replace(house, machine=replace(house.machine, lan_address="9.9.9.9"))
    for at, seen in ((named, rented), (house, facts(lan_address="9.9.9.9", built=True))):
        assert obstacles(at, seen, Surroundings()) == []
        assert remarks(at, seen, Surroundings()) == [line]


def test_a_disk_too_small_for_the_models_is_refused(house: House) -> None:
    little = facts(disk_free_bytes=12 * GIB)
    assert obstacles(house, little, Surroundings()) == [
        "/var has 12.0 GiB free, and the models take 7.3 GiB, besides 6 GiB for programs (the "
        f"biggest: big 6.1, small 0.9, finder 0.3): free some, {MORE_MODELS}"
    ]
    assert obstacles(house, facts(disk_free_bytes=14 * GIB), Surroundings()) == []
    # Without room for the house itself another line has said so.
    assert obstacles(house, facts(disk_free_bytes=5 * GIB), Surroundings()) == []


def test_models_in_a_folder_of_ones_own_need_room_there(house: House) -> None:
    ollama = house.services["ollama"]
    own = tuple(replace(volume, from_folder="/srv/models") for volume in ollama.volumes)
    there = replace(house, services={**house.services, "ollama": replace(ollama, volumes=own)})
    assert own_folders(house) == []
    assert own_folders(there) == ["/srv/models"]
    little = facts(disk_free_bytes=6 * GIB)
    assert obstacles(there, little, Surroundings(free={"/srv/models": 8 * GIB})) == []
    (line,) = obstacles(there, little, Surroundings(free={"/srv/models": 7 * GIB}))
    assert line.startswith("/srv/models has 7.0 GiB free, and the models take 7.3 GiB (the big")


def test_a_model_that_cannot_be_loaded_is_said_and_one_that_nobody_replaces_refused(
    house: House,
) -> None:
    small = facts(memory_bytes=4 * GIB)
    assert obstacles(house, small, Surroundings()) == []
    assert remarks(house, small, Surroundings()) == [
        f"big takes 8.0 GiB of memory and this machine has 4.0 GiB: {alias} does without it"
        for alias in ("fast", "reasoning")
    ]
    tiny = facts(memory_bytes=GIB)
    assert obstacles(house, tiny, Surroundings()) == [
        f"{name} takes {size} GiB of memory and this machine has 1.0 GiB: fast has no other: "
        "give it a smaller one in inventory/local/aliases.yml"
        for name, size in (("small", "1.1"), ("big", "8.0"))
    ]


def test_a_built_house_is_not_asked_for_room_or_for_other_resolvers(house: House) -> None:
    around = Surroundings(claims=(Claim("192.0.2.1", "llm.lan", "192.0.2.10"),))
    assert obstacles(house, facts(built=True, disk_free_bytes=0), around) == []


def test_all_that_stands_in_the_way_is_said_at_once(house: House) -> None:
    around = Surroundings(
        root=False,
        tun=False,
        clock="early",
        networks=(("lan0", "10.140.30.0/25"),),
        claims=(Claim("192.0.2.1", "llm.lan", "192.0.2.77"),),
    )
    held = [Listener("tcp", "*", 9180, "jellyfin.service")]
    found = obstacles(house, facts(disk_free_bytes=7 * GIB), around, held)
    assert len(found) == 7
    assert all("\n" not in line and ": " in line for line in found)

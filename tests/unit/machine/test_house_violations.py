"""Each conflict between house and machine is reported in one line, before anything changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hearth.catalogue import House, derive, load
from hearth.machine.environment import Environment
from hearth.machine.facts import Facts, Listener
from hearth.machine.preflight import violations_and_warnings
from tests.unit.machine import samples
from tests.unit.machine.samples import CARD, GIB

# With a GPU, about which there is nothing to warn.
facts = partial(samples.facts, render_nodes=(CARD,))

BASE = Path(__file__).parents[2] / "fixtures/catalogue/base"
MORE_MODELS = (
    "choose a folder on another disk (`from_folder:` in the service's data), or remove models in "
    "inventory/local/models.yml and aliases.yml"
)


def house_violations(house: House, machine: Facts, environment: Environment) -> list[str]:
    return violations_and_warnings(house, machine, environment)[0]


def house_warnings(house: House, machine: Facts, environment: Environment) -> list[str]:
    return violations_and_warnings(house, machine, environment)[1]


@pytest.fixture(scope="module")
def house() -> House:
    return derive(load(BASE))


def test_a_good_machine_has_no_conflict(house: House) -> None:
    environment = Environment(networks=(("lan0", "192.0.2.0/24"), ("docker0", "172.17.0.0/16")))
    own = (Listener("tcp", "127.0.0.1", 9180, "hearth-login.service"),)
    environment = replace(environment, listeners=own)
    assert house_violations(house, facts(), environment) == []
    assert house_warnings(house, facts(), environment) == []


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        ({"root": False}, "only root can build a house: put `sudo` before the command"),
        (
            {"tun": False},
            "there is no /dev/net/tun, so this is a container or its kernel is reduced, and it "
            "cannot run instances: use a full machine, or run `modprobe tun` on the container's "
            "host and pass the device in",
        ),
        (
            {"own_units": ("caddy.service",)},
            "/etc/systemd/system/caddy.service is a unit of yours, and the house masks that name "
            "to keep Debian's own from starting: disable the unit, and give it another name",
        ),
        (
            {"networks": (("lan0", "192.0.2.0/24"), ("virbr1", "10.140.0.0/16"))},
            "10.140.30.0/24, the range for instances, is in use on this machine (virbr1 has "
            "10.140.0.0/16): write another one, e.g. instances: 172.29.30.0/24, into "
            "inventory/local/machines.yml (`hearth check` then names the addresses to change)",
        ),
        (
            {"claims": {"192.0.2.1": ("debian.lan", "192.0.2.10")}},
            "192.0.2.1 already answers for names in lan (debian.lan is 192.0.2.10 there), and a "
            "domain has one resolver: write another domain, e.g. domain: home.arpa, into "
            "inventory/local/machines.yml, or remove those names from 192.0.2.1",
        ),
    ],
)
def test_each_conflict_is_one_line(house: House, seen: dict[str, Any], line: str) -> None:
    assert house_violations(house, facts(), Environment(**seen)) == [line]


def test_a_clock_before_this_debian_is_refused_and_a_free_one_is_a_warning(house: House) -> None:
    (line,) = house_violations(house, facts(), Environment(clock="early"))
    assert line.startswith("the clock shows 20")
    assert "set it (`timedatectl set-time`) and install systemd-timesyncd" in line
    assert house_violations(house, facts(), Environment(clock="free")) == []
    (line,) = house_warnings(house, facts(), Environment(clock="free"))
    assert line.endswith("install systemd-timesyncd")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "*"])
def test_a_port_of_a_part_that_is_in_use_is_refused(house: House, address: str) -> None:
    held = (
        Listener("tcp", address, 9180, "jellyfin.service"),
        Listener("udp", address, 9180, "other.service"),
        Listener("tcp", "192.0.2.10", 9180, "other.service"),
    )
    on = " on 127.0.0.1" if address == "127.0.0.1" else ""
    assert house_violations(house, facts(), Environment(listeners=held)) == [
        f"port 9180/tcp is held by jellyfin.service{on}; the part login needs it: stop that "
        "program, or give login another port in inventory/local/services.yml"
    ]


WRITE = "write your router's address, e.g. upstream_dns: [192.168.1.1], into inventory/local"


def test_a_machine_that_resolves_its_own_names_is_refused_and_a_house_is_warned(
    house: House,
) -> None:
    bare = facts(upstream_dns=(), upstream_known="itself")
    (line,) = house_violations(house, bare, Environment())
    assert line == (
        "this machine has no DNS server except itself, so devices could not resolve names "
        f"outside the house: {WRITE}/machines.yml"
    )
    assert house_warnings(house, bare, Environment()) == []
    built = facts(upstream_dns=(), upstream_known="itself", built=True)
    assert house_violations(house, built, Environment()) == []
    assert house_warnings(house, built, Environment()) == [line]


def test_a_machine_without_dns_server_is_warned(house: House) -> None:
    without = facts(upstream_dns=(), upstream_known="none")
    assert house_violations(house, without, Environment()) == []
    (line,) = house_warnings(house, without, Environment())
    assert line.startswith("this machine has no DNS server, so devices could not resolve names")
    kept = facts(upstream_dns=("192.0.2.1",), upstream_known="kept", built=True)
    assert house_violations(house, kept, Environment()) == []
    assert house_warnings(house, kept, Environment()) == [
        "this machine has no DNS server except itself, so the house keeps using 192.0.2.1: "
        "write your router's address, e.g. upstream_dns: [192.0.2.1], into "
        "inventory/local/machines.yml"
    ]


def test_a_public_lan_address_is_refused_unless_it_is_configured(house: House) -> None:
    rented = facts(lan_address="9.9.9.9")
    (line,) = house_violations(house, rented, Environment())
    assert line.startswith("9.9.9.9, this machine's LAN address, is a public one")
    assert line.endswith("write lan_address: 9.9.9.9 into inventory/local/machines.yml")
    assert house_warnings(house, rented, Environment()) == []
    named = replace(house, machine=replace(house.machine, lan_address="9.9.9.9"))
    for at, seen in ((named, rented), (house, facts(lan_address="9.9.9.9", built=True))):
        assert house_violations(at, seen, Environment()) == []
        assert house_warnings(at, seen, Environment()) == [line]


def test_a_disk_too_small_for_the_models_is_refused(house: House) -> None:
    little = facts(disk_free_bytes=12 * GIB)
    assert house_violations(house, little, Environment()) == [
        "/var has 12.0 GiB free, and the models need 7.3 GiB, plus 6 GiB for programs (the "
        f"largest: big 6.1, small 0.9, finder 0.3): free some space, {MORE_MODELS}"
    ]
    assert house_violations(house, facts(disk_free_bytes=14 * GIB), Environment()) == []
    # A disk without room for the programs has a line of its own.
    (line,) = house_violations(house, facts(disk_free_bytes=5 * GIB), Environment())
    assert line.startswith("/var has 5.0 GiB free; images and programs need 6 GiB")


def test_models_in_the_users_own_folder_need_room_there(house: House) -> None:
    ollama = house.services["ollama"]
    own = tuple(replace(volume, from_folder="/srv/models") for volume in ollama.volumes)
    there = replace(house, services={**house.services, "ollama": replace(ollama, volumes=own)})
    little = facts(disk_free_bytes=6 * GIB)
    assert house_violations(there, little, Environment(free_bytes={"/srv/models": 8 * GIB})) == []
    (line,) = house_violations(there, little, Environment(free_bytes={"/srv/models": 7 * GIB}))
    assert line.startswith("/srv/models has 7.0 GiB free, and the models need 7.3 GiB (the larg")


def test_a_model_too_large_is_a_warning_and_without_replacement_refused(
    house: House,
) -> None:
    small = facts(memory_bytes=4 * GIB)
    assert house_violations(house, small, Environment()) == []
    assert house_warnings(house, small, Environment()) == [
        f"big needs 8.0 GiB of memory and this machine has 4.0 GiB: {alias} does not use it"
        for alias in ("fast", "reasoning")
    ]
    tiny = facts(memory_bytes=GIB)
    assert house_violations(house, tiny, Environment()) == [
        f"{name} needs {size} GiB of memory and this machine has 1.0 GiB: fast has no other model: "
        "add a smaller one in inventory/local/aliases.yml"
        for name, size in (("small", "1.1"), ("big", "8.0"))
    ]


def test_a_built_house_is_not_checked_for_room_or_for_other_resolvers(house: House) -> None:
    environment = Environment(claims={"192.0.2.1": ("llm.lan", "192.0.2.10")})
    assert house_violations(house, facts(built=True, disk_free_bytes=0), environment) == []


def test_all_conflicts_are_reported_at_once(house: House) -> None:
    environment = Environment(
        root=False,
        tun=False,
        clock="early",
        networks=(("lan0", "10.140.30.0/25"),),
        claims={"192.0.2.1": ("llm.lan", "192.0.2.77")},
        listeners=(Listener("tcp", "*", 9180, "jellyfin.service"),),
    )
    found = house_violations(house, facts(disk_free_bytes=7 * GIB), environment)
    assert len(found) == 7
    assert all("\n" not in line and ": " in line for line in found)


def test_another_firewall_prevents_a_house_only_before_it_is_built(house: House) -> None:
    seen = Environment(firewall_problems=("ufw would drop packets",))
    assert house_violations(house, facts(), seen) == ["ufw would drop packets"]
    assert house_violations(house, facts(built=True), seen) == []
    assert house_warnings(house, facts(built=True), seen) == ["ufw would drop packets"]

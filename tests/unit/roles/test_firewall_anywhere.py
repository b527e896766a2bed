"""A service with `egress: any` reaches the web, and nothing of the house."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.catalogue.house import House, from_vars
from hearth.render.files import NOT_PUBLIC, not_public
from tests.role_data import reference_house, rendered_file
from tests.unit.roles.router import (
    CONTAINER,
    FETCHER,
    INTERNET,
    KOKORO,
    LAN,
    LITELLM,
    OLLAMA,
    Router,
    router,
)

RESOLVER, MACHINE, PUBLIC_OF_MACHINE = "10.140.30.1", "192.0.2.10", "9.9.9.1"

# The kernel limits its rejections per second. "Refused" would show that a packet passed.
CLOSED = ("rejected", "silent")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Router]:
    if os.geteuid() != 0:
        pytest.skip("a network of its own needs root")
    (tmp_path / "inventory").mkdir()
    with router(reference_house(tmp_path / "inventory"), tmp_path) as made:
        yield made


def test_it_reaches_the_web_and_nothing_of_the_house(machine: Router) -> None:
    assert machine.knock(FETCHER, INTERNET, 80) == "open"
    assert machine.knock(FETCHER, INTERNET, 443) == "open"
    closed = [(INTERNET, 8080), (PUBLIC_OF_MACHINE, 80), (MACHINE, 443), (RESOLVER, 443)]
    closed += [(place, 443) for place in (LAN, CONTAINER, LITELLM, OLLAMA, KOKORO)]
    closed += [(LITELLM, 8080), (MACHINE, 8080), (RESOLVER, 11434)]
    for place, port in closed:
        assert machine.knock(FETCHER, place, port) in CLOSED, (place, port)


def test_no_other_instance_gains_and_nothing_reaches_it(machine: Router) -> None:
    for other in (LITELLM, OLLAMA, KOKORO):
        assert machine.knock(other, INTERNET, 443) in CLOSED, other
        assert machine.knock(other, FETCHER, 443) in CLOSED, other
    for outside in (INTERNET, LAN, CONTAINER):
        assert machine.knock(outside, FETCHER, 443) in CLOSED, outside


def test_a_lan_and_a_range_with_public_addresses_are_closed_as_well(tmp_path: Path) -> None:
    house = from_vars(House, reference_house(tmp_path))
    assert not_public(house) == list(NOT_PUBLIC)
    assert set(not_public(house, ["198.41.0.0/24", "192.168.1.0/24"])) == {
        *NOT_PUBLIC,
        "198.41.0.0/24",
    }


def test_a_house_without_such_a_service_has_no_rule_for_it(tmp_path: Path) -> None:
    house = reference_house(tmp_path)
    assert "$not_public" in rendered_file("firewall", "firewall.nft.j2", house)
    del house["services"]["fetcher"]
    assert "not_public" not in rendered_file("firewall", "firewall.nft.j2", house)


def test_names_beside_any_are_opened_as_for_other_services(tmp_path: Path) -> None:
    house = reference_house(tmp_path)
    out = {"source": "fetcher", "source_address": FETCHER, "host": "wiki.example.org", "port": 443}
    house["egress"].append(out)
    rules = rendered_file("firewall", "firewall.nft.j2", house)
    assert f"ip saddr {FETCHER} ip daddr @egress_fetcher_443 tcp dport 443 accept" in rules
    resolver = rendered_file("dnsmasq", "dnsmasq.conf.j2", house)
    assert "nftset=/wiki.example.org/4#inet#hearth#egress_fetcher_443" in resolver

"""What a role starts becomes a container: its command, its user, its folders, and what it loses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hearth.catalogue.house import House
from hearth.render.containers import (
    INIT,
    ImageSpec,
    Start,
    contained,
    health_command,
    lost_rules,
    start_of,
)
from hearth.render.programs import Program
from hearth.render.units import UnitError
from tests.documents import shipped_house


@pytest.fixture(scope="module")
def whole() -> House:
    return shipped_house()


@pytest.fixture(scope="module")
def house(whole: House) -> House:
    return contained(whole)


def program(name: str = "kokoro", **more: Any) -> Program:
    run = {"summary": "x", "user": "kokoro", "command": ["/bin/it", 1]}
    return Program(name, run | more.pop("run", {}), **more)


def start(house: House, given: Program, stored: tuple[str, ...] = ()) -> Start:
    return start_of(given, house.services["kokoro"], stored=stored)


def test_addresses_become_names_everywhere(whole: House, house: House) -> None:
    assert house.services["litellm"].url == "http://litellm:4000"
    [site] = [site for site in house.sites if site.fqdn == "llm.lan"]
    assert (site.upstream, site.upstream_url) == ("litellm:4000", "http://litellm:4000")
    models = [model for model in house.models.values() if model.service == "ollama"]
    assert {model.url for model in models} == {"http://ollama:11434"}
    text = str(house.as_vars()["sites"]) + str(house.as_vars()["models"])
    addresses = {s.address for s in whole.services.values() if s.address}
    assert not [address for address in addresses if address in text]


def test_what_looks_at_the_machine_is_left_out_with_its_needs(house: House) -> None:
    assert {"agents", "ntfy", "prometheus"}.isdisjoint(house.services)
    assert {*house.parts} == {"dnsmasq", "caddy", "login", "trust", INIT.name}
    there = {*house.services, *house.parts}
    for owner in house.services.values():
        assert {*owner.needs, *owner.calls} <= there, owner.name
    assert {flow.target for flow in house.flows} <= there
    assert "consumer_agents" not in house.secrets
    assert {"consumer_household", "house_password", "pipelines_key"} <= {*house.secrets}


def test_a_program_writes_only_what_its_role_declares(house: House) -> None:
    data = "/var/lib/kokoro"
    made = start(
        house,
        program(
            run={"writable": [f"{data}/a", "/var/spool/it"], "runtime_folder": "it"},
            folders=[{"path": "/var/cache/it"}, {"path": f"{data}/b"}],
        ),
        (data,),
    )
    assert made.writable == (data, "/var/cache/it")
    assert made.folders == (f"{data}/b",)
    assert {*made.memory} == {"/tmp", "/var/spool/it", "/run/it"}
    assert made.environment["RUNTIME_DIRECTORY"] == "/run/it"
    assert made.command == ("/bin/it", "1")


def test_a_program_finds_its_credentials_where_systemd_puts_them(house: House) -> None:
    made = start(house, program(credentials={"key": "secret"}))
    assert made.environment["CREDENTIALS_DIRECTORY"] == "/run/credentials/kokoro.service"
    assert start(house, program()).environment == {}


def test_a_proxy_answers_under_the_name_of_its_service(house: House) -> None:
    ollama = house.services["ollama"]
    names = ("ollama", "ollama-proxy", "ollama-models")
    made = [start_of(program(name), ollama, stored=()) for name in names]
    assert [one.container for one in made] == ["ollama-program", "ollama", "ollama-models"]
    assert made[1].health["url"] == "http://ollama:11434/api/version"
    assert made[2].health == {}


def test_debians_own_unit_is_refused(house: House) -> None:
    with pytest.raises(UnitError, match="only a program with start data"):
        start(house, Program("it"))


def test_rules_that_a_container_has_too_are_not_reported_as_lost() -> None:
    lost = lost_rules({})
    assert lost["MemoryDenyWriteExecute"] == "yes"
    assert "NoNewPrivileges" not in lost
    assert "ProtectSystem" not in lost
    given = {"exceptions": {"MemoryDenyWriteExecute": {"value": "no", "reason": "x"}}}
    assert "MemoryDenyWriteExecute" not in lost_rules(given)
    assert lost_rules({"peers": ["localhost"]})["IPAddressAllow"] == "localhost"


def test_the_line_of_a_health_check_is_quoted_for_a_shell() -> None:
    line = health_command({"url": "http://it/", "contains": '"ok"', "within_s": 2.0})
    assert line == "/usr/local/bin/hearth-healthy http://it/ '\"ok\"' 2"


def test_the_recipe_covers_what_is_inside_and_nothing_else(house: House) -> None:
    given = start(house, program())
    spec = ImageSpec(
        repository="hearth-it",
        owner="kokoro",
        accelerator="none",
        image="debian/13",
        packages=("python3",),
        root="/opt/hearth",
        programs={"it": "1"},
        starts=(given,),
        default=given,
    )
    assert spec.name == f"hearth-it:{spec.recipe}"
    same = replace(spec, starts=(replace(given, files={"/etc/it": "x"}),), accelerator="vulkan")
    assert same.recipe == spec.recipe
    for other in (
        replace(spec, programs={"it": "2"}),
        replace(spec, packages=("python3", "curl")),
        replace(spec, default=replace(given, command=("/bin/other",))),
    ):
        assert other.recipe != spec.recipe

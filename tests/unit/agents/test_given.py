"""What the agents' server and the broker are given, in the forms that they read."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from hearth.catalogue import House
from hearth.catalogue.house import from_vars
from hearth.catalogue.schema import VERBS
from hearth.render.agents import NO_DIGEST, agents_config, broker_config, notes_on_trust
from hearth_agents.config import load_config as read_agents
from hearth_broker.config import load_config as read_broker
from tests.agents_house import WITHOUT, agents_house
from tests.role_data import reference_house, run_units

KEYS = {"agents": "a" * 64, "open_webui": "b" * 64}


@pytest.fixture
def house() -> House:
    return agents_house()


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_the_broker_reads_which_key_opens_which_verbs(house: House, tmp_path: Path) -> None:
    document = broker_config(house, "broker", KEYS, "/srv/hearth")
    config = read_broker(written(tmp_path / "broker.json", document))
    assert (str(config.project), config.home) == ("/srv/hearth", "home.lan")
    held = {name: (one.sha256, one.inside) for name, one in config.consumers.items()}
    assert held == {name: (digest, True) for name, digest in KEYS.items()}
    assert config.consumers["open_webui"].verbs == VERBS["free"]
    assert set(config.consumers["agents"].verbs) == {
        verb for kind in VERBS.values() for verb in kind
    }


def test_both_know_where_people_chat(house: House, tmp_path: Path) -> None:
    document = broker_config(house, "broker", KEYS, "/srv/hearth")
    assert read_broker(written(tmp_path / "b.json", document)).chats == {"open_webui": "chat.lan"}
    document = agents_config(house, house.services["agents"], KEYS)
    assert read_agents(written(tmp_path / "a.json", document)).chats == ("open_webui",)


def test_a_key_without_a_value_opens_nothing(house: House) -> None:
    consumers = broker_config(house, "broker", {}, "/srv/hearth")["consumers"]
    assert {one["sha256"] for one in consumers.values()} == {NO_DIGEST}


def test_a_coding_agent_gets_a_key_of_its_own_by_one_entry(tmp_path: Path) -> None:
    entry = "consumers:\n  editor: {summary: An editor., services: [broker], verbs: [run_code]}\n"
    house = agents_house(WITHOUT, consumers=entry)
    document = broker_config(house, "broker", {"editor": "c" * 64}, "/srv/hearth")
    editor = read_broker(written(tmp_path / "broker.json", document)).consumers["editor"]
    assert (editor.sha256, editor.verbs, editor.inside) == ("c" * 64, ("run_code",), False)


def test_the_server_reads_the_team(house: House, tmp_path: Path) -> None:
    document = agents_config(house, house.services["agents"], KEYS | {"household": "d" * 64})
    config = read_agents(written(tmp_path / "config.json", document))
    assert config.litellm == "http://10.140.30.14:4000/v1"
    assert config.broker == "http://10.140.30.1:9185"
    assert config.agents.keys() == house.agents.keys()
    assert config.agents["team"].specialists == ("researcher", "coder", "analyst", "caretaker")
    assert config.limits.turns == 40
    # Its own key is for others' servers, and guests have none for it.
    assert config.consumers.keys() == {"household", "hearth_verify", "open_webui", "pipelines"}
    assert config.consumers["household"] == "d" * 64


def test_what_a_model_in_the_cloud_costs_is_known_where_it_is_used(house: House) -> None:
    assert agents_config(house, house.services["agents"], {})["prices"] == {}
    paid = agents_house(secrets=frozenset({"anthropic_api_key"}))
    prices = agents_config(paid, house.services["agents"], {})["prices"]
    assert prices == {"claude-haiku-4-5": {"input_eur": 1.0, "output_eur": 5.0}}


@pytest.mark.parametrize(
    ("scores", "lead"),
    [
        ({}, True),
        ({"qwen3.5": {"right": 44, "played": 50, "trusted": True}}, True),
        ({"qwen3.5": {"right": 30, "played": 50, "trusted": False}}, False),
        ({"llama3.1": {"right": 30, "played": 50, "trusted": False}}, True),
        ({"orchestrator": {"right": 30, "played": 50, "trusted": False}}, False),
    ],
)
def test_what_was_measured_decides_who_leads(
    house: House, tmp_path: Path, scores: dict[str, Any], lead: bool
) -> None:
    path = written(tmp_path / "bench-agents.json", {"scores": scores})
    document = agents_config(house, house.services["agents"], {}, str(path))
    config = read_agents(written(tmp_path / "a.json", document))
    assert (config.untrusted == {}) == lead
    notes = notes_on_trust(house, path)
    if not lead:
        why = "qwen3.5 cannot be trusted with tools (30 of 50 tasks right in hearth bench agents)"
        assert config.untrusted == {"orchestrator": why}
        assert notes == [f"the team routes by rules: {why}"]
    elif "qwen3.5" in scores:
        assert notes == []
    else:
        (note,) = notes
        assert note.endswith("was not measured: run `hearth bench agents`")


def test_a_rendering_reads_no_measurements(house: House, tmp_path: Path) -> None:
    assert agents_config(house, house.services["agents"], {})["untrusted"] == {}
    broken = tmp_path / "bench-agents.json"
    broken.write_text("[")
    assert agents_config(house, house.services["agents"], {}, str(broken))["untrusted"] == {}


def test_keys_are_credentials_of_the_server_and_no_secret_of_the_broker(tmp_path: Path) -> None:
    units = run_units(reference_house(tmp_path), "none")
    loaded = [x for x in units["agents"].splitlines() if x.startswith("LoadCredential=")]
    assert [line.split("=")[1].split(":")[0] for line in loaded] == ["broker_key", "litellm_key"]
    assert "LoadCredential" not in units["hearth-broker"]
    # It reaches the house, and nothing that is not part of it.
    assert "IPAddressAllow=localhost 10.140.30.0/24\n" in units["hearth-broker"]
    assert "IPAddressDeny=any\n" in units["hearth-broker"]


def external(house: dict[str, Any], name: str, url: str, **more: Any) -> None:
    one = {"name": name, "runtime": "external", "url": url, **more}
    house["services"][name] = {**house["services"]["litellm"], **one}


def test_external_servers_are_reached_by_their_addresses(tmp_path: Path) -> None:
    house = reference_house(tmp_path)
    external(house, "searxng", "http://192.0.2.7:8888")
    external(house, "comfyui", "http://nowhere.invalid:8188")
    unit = run_units(house, "none")["hearth-broker"]
    assert "IPAddressAllow=localhost 10.140.30.0/24 192.0.2.7\n" in unit


def test_a_name_of_an_external_server_is_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: str, *_: object, **__: object) -> list[Any]:
        if host != "nas.example.org":
            raise socket.gaierror
        found = ["192.0.2.9", "192.0.2.8", "192.0.2.9", "2001:db8::1"]
        return [(0, 0, 0, "", (one, 0)) for one in found]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    house = reference_house(tmp_path)
    external(house, "searxng", "https://nas.example.org")
    unit = run_units(house, "none")["hearth-broker"]
    assert "IPAddressAllow=localhost 10.140.30.0/24 192.0.2.8 192.0.2.9 2001:db8::1\n" in unit


def test_the_key_of_an_external_search_server_reaches_the_broker(tmp_path: Path) -> None:
    house = reference_house(tmp_path)
    secrets = {"searxng_key": "given"}
    url = "http://192.0.2.7:8888"
    external(house, "searxng", url, offers=["search"], secrets=secrets)
    unit = run_units(house, "none")["hearth-broker"]
    assert "LoadCredential=search_key:" in unit
    document = broker_config(from_vars(House, house), "broker", {}, "/srv/hearth")
    config = read_broker(written(tmp_path / "broker.json", document))
    assert str(config.search_key) == "/run/credentials/hearth-broker.service/search_key"


def test_without_such_a_key_there_is_none(house: House) -> None:
    assert "search_key" not in broker_config(house, "broker", {}, "/srv/hearth")

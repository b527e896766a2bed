"""The pipelines' server is given its key, the house's models, and what may restart it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.role_data import ROLES, read, reference_house, rendered, run_units
from tests.unit.roles.test_kokoro import after, started

INSTALL = read(ROLES / "pipelines/tasks/install.yml")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The reference house."""
    return reference_house(tmp_path_factory.mktemp("inventory"))


def test_it_gets_the_address_of_the_houses_models(house: dict[str, Any]) -> None:
    unit = run_units(house, "none")["pipelines"]
    words = started(unit)
    assert words[:4] == ["/usr/bin/python3", "-P", "-m", "hearth_pipelines"]
    assert after(words, "--models") == [house["services"]["litellm"]["url"] + "/v1"]
    assert after(words, "--pipelines") == ["/opt/hearth/pipelines_files/current"]
    assert after(words, "--host") == [house["services"]["pipelines"]["address"]]


def test_keys_are_credentials_only_and_it_writes_no_files(house: dict[str, Any]) -> None:
    house = {**house, "services": {name: dict(one) for name, one in house["services"].items()}}
    house["services"]["pipelines"]["secrets"] = {"pipelines_key": "random", "town_key": "given"}
    unit = run_units(house, "none")["pipelines"]
    loaded = [line for line in unit.splitlines() if line.startswith("LoadCredential=")]
    names = [line.removeprefix("LoadCredential=").partition(":")[0] for line in loaded]
    assert names == ["models_key", "pipelines_key", "town_key"]
    assert "made-up" not in unit
    assert "ReadWritePaths" not in unit
    assert "ProtectSystem=strict" in unit


def test_a_new_server_or_pipeline_causes_a_restart(house: dict[str, Any]) -> None:
    watched = rendered("pipelines", "__pipelines_watch", house, "pipelines", {})
    assert watched == ["/opt/hearth/pipelines/current", "/opt/hearth/pipelines_files/current"]


def test_pipelines_have_their_own_key(house: dict[str, Any]) -> None:
    own = rendered("pipelines", "__pipelines_consumer", house, "pipelines", {})
    assert own == "consumer_pipelines"
    assert house["consumers"]["pipelines"]["services"] == ["litellm", "agents"]


def test_it_gets_the_address_of_the_agents_where_the_house_has_them(house: dict[str, Any]) -> None:
    words = started(run_units(house, "none")["pipelines"])
    assert after(words, "--agents") == [house["services"]["agents"]["url"] + "/v1"]
    services = {name: dict(one) for name, one in house["services"].items()}
    services["pipelines"]["needs"] = ["litellm"]
    alone = {**house, "services": services}
    assert "--agents" not in started(run_units(alone, "none")["pipelines"])


def test_only_the_chat_may_reach_it(tmp_path: Path) -> None:
    shipped = reference_house(tmp_path)
    callers = {flow["source"] for flow in shipped["flows"] if flow["target"] == "pipelines"}
    assert callers == {"open_webui"}
    assert shipped["services"]["pipelines"]["sites"] == []
    assert not shipped["services"]["pipelines"]["publish_tcp"]
    assert not shipped["services"]["pipelines"]["egress"]


def test_the_role_installs_the_given_pipelines() -> None:
    tasks = {next(key for key in task if key.startswith("house_")): task for task in INSTALL}
    given = tasks["house_pipelines"]["house_pipelines"]
    assert given["valves"] == "{{ pipelines_valves }}"
    assert given["without"] == "{{ pipelines_without }}"
    assert tasks["house_program"]["house_program"]["requirements"].endswith("/pipelines.txt")

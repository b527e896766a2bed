"""The bench measures the models that call tools and are there, and says why not the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hearth.bench.agents.choose import IN_CLOUD, select_models
from hearth.bench.agents.run import Candidate
from hearth.catalogue.house import House
from hearth.clients import ClientError
from hearth.clients.models import Overview, model_states
from tests.documents import shipped_house


@pytest.fixture(scope="module")
def house() -> House:
    return shipped_house()


@pytest.fixture
def states(house: House) -> Overview:
    def nothing(*_: object) -> Any:
        raise OSError

    known = model_states(house, nothing, nothing, datetime.now(UTC))
    there = ("qwen3.5", "llama3.1", "nomic-embed-text")
    ready = {name: replace(known.models[name], state="ready", digest="d") for name in there}
    return replace(known, models={**known.models, **ready})


def test_all_that_call_tools_and_are_on_disk(house: House, states: Overview) -> None:
    found, skipped = select_models(house, states, (), cloud=False, thinking="off")
    assert found == [
        Candidate("qwen3.5", "d", False, {"reasoning_effort": "none"}),
        Candidate("llama3.1", "d", False, {}),
    ]
    assert "nomic-embed-text" not in skipped
    assert skipped["qwen2.5-coder:7b"].startswith("it is not there yet (waiting")
    unset = replace(house.models["gpt-oss-120b"], usable=False, reason="no key")
    closed = replace(house, models={**house.models, unset.name: unset})
    assert select_models(closed, states, (), cloud=True, thinking="off")[1][unset.name] == "no key"


def test_the_cloud_only_where_it_is_asked_for(house: House, states: Overview) -> None:
    name = "gpt-oss-120b"
    _, skipped = select_models(house, states, (), cloud=False, thinking="low")
    assert skipped[name] == IN_CLOUD
    for named, cloud in (((), True), ((name,), False)):
        found, _ = select_models(house, states, named, cloud=cloud, thinking="low")
        assert Candidate(name, "", True, {"reasoning_effort": "low"}) in found


def test_names_are_models_or_aliases(house: House, states: Overview) -> None:
    found, skipped = select_models(house, states, ("local", "embed"), cloud=False, thinking="off")
    assert [one.name for one in found] == ["local"]
    assert skipped == {"embed": "not all of its models call tools"}
    with pytest.raises(ClientError, match=r"no model or alias 'lokal': did you mean local\?"):
        select_models(house, states, ("lokal",), cloud=False, thinking="off")

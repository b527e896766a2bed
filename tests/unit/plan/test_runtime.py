"""What a stored plan means for the models of a house while it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hearth.plan import PlanError
from hearth.plan.document import document_of
from hearth.plan.inventory import (
    known_models_of,
    plan_of_document,
    unlisted_models,
    wishes_of,
)
from hearth.plan.machine import Card, MeasuredMachine, MemoryNode, Rate
from hearth.plan.proposal import make_plan
from hearth.plan.runtime import RuntimeBudget, _model_budget, runtime_budget, server_settings
from hearth.render.gateway import gateway_files
from tests.documents import shipped_house

GIB = 2**30
RATE = Rate(median=50e9, low=50e9, high=50e9, source="made up")


def machine(gib: int, card_gib: int = 0, held_gib: int = 0) -> MeasuredMachine:
    card = Card(
        name="card",
        backend="cuda",
        kind="dedicated",
        memory_bytes=card_gib * GIB,
        memory_source="made up",
        bandwidth=replace(RATE, median=300e9),
    )
    return MeasuredMachine(
        name="m",
        processor="p",
        architecture="x86_64",
        cores=8,
        memory_bytes=gib * GIB,
        held_bytes=held_gib * GIB,
        nodes=(MemoryNode(number=0, processors=8, memory_bytes=gib * GIB, bandwidth=RATE),),
        cards=(card,) if card_gib else (),
    )


def budget(one: MeasuredMachine, **wishes: Any) -> RuntimeBudget:
    house = shipped_house()
    plan = make_plan(one, wishes_of(house, **wishes), unlisted_models(house))
    return runtime_budget(plan_of_document(json.dumps(document_of(plan)), "x", house), house)


def test_a_large_machine_loads_all_models_and_refuses_none() -> None:
    large = budget(machine(128))
    assert {one.refused for one in large.models.values()} == {""}
    assert large.most_loaded == len(large.models)
    assert {"qwen3.5", "nomic-embed-text", "qwen2.5-coder:7b"} <= set(large.models)
    # Memory is given back, unless others have a reserve that was set.
    assert large.keep_alive == ""
    assert budget(machine(128), reserve_bytes=8e9).keep_alive == "-1"


def test_a_small_machine_refuses_what_would_starve_speech_and_says_why() -> None:
    small = budget(machine(8))
    refused = {name: one.refused for name, one in small.models.items() if one.refused}
    assert "qwen3.5" in refused
    assert "qwen2.5-coder:1.5b" not in refused
    assert "the reserve, transcribe, TTS leave" in refused["qwen3.5"]
    assert 1 <= small.most_loaded < len(small.models)


def test_fewer_models_are_loaded_where_there_is_less_room() -> None:
    counts = [budget(machine(gib)).most_loaded for gib in (8, 16, 32, 64)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_what_others_hold_is_no_room_and_a_set_reserve_replaces_it() -> None:
    free, desktop = budget(machine(32)), budget(machine(32, held_gib=8))
    assert free.room_bytes - desktop.room_bytes == 8 * GIB - free_reserve(32)
    assert budget(machine(32, held_gib=8), reserve_bytes=2 * GIB).room_bytes == free.room_bytes


def free_reserve(gib: int) -> int:
    """What the planner leaves to the system, when others hold less."""
    return min(2 * GIB, gib * GIB // 8)


def test_a_card_is_planned_as_a_whole() -> None:
    card = budget(machine(32, card_gib=8))
    assert card.device == "card"
    assert card.room_bytes < 8 * GIB
    assert card.models["qwen2.5-coder:7b"].needed_bytes > 4e9


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"machine": 5}', "[" * 100_000, '"a"'])
def test_what_is_no_plan_is_refused_in_one_line(document: str) -> None:
    with pytest.raises(PlanError, match=r"^plan\.json is not a plan$"):
        plan_of_document(document, "plan.json", shipped_house())


@pytest.mark.parametrize(
    ("stored", "keep_alive", "slots", "wanted"),
    [
        ({}, "auto", "auto", ("15m", 1, "", 0)),
        ({}, "30m", 4, ("30m", 4, "", 0)),
        ({}, "-1", "2", ("-1", 2, "", 0)),
        (
            {"keep_alive": "-1", "slots": 3, "cache_type": "q8_0", "most_loaded": 2},
            "auto",
            "auto",
            ("-1", 3, "q8_0", 2),
        ),
        ({"keep_alive": "-1", "slots": 3, "most_loaded": 2}, "15m", 1, ("15m", 1, "", 2)),
    ],
)
def test_settings_follow_from_the_budget_unless_the_house_sets_them(
    stored: dict[str, Any], keep_alive: str, slots: int | str, wanted: tuple[Any, ...]
) -> None:
    assert tuple(server_settings(stored, keep_alive, slots).values()) == wanted


def test_the_gateway_gets_each_models_memory() -> None:
    house = shipped_house()
    stored = {
        "room_bytes": 8 * GIB,
        "models": {
            "qwen3.5": {"needed_bytes": 9 * GIB, "refused": "too large"},
            "gone": {"needed_bytes": 1, "refused": ""},
        },
    }
    names = gateway_files(house, stored)["aliases.json"]
    assert names["qwen3.5"]["memory"] == {
        "url": house.services["ollama"].url,
        "needed_bytes": 9 * GIB,
        "room_bytes": 8 * GIB,
        "refused": "too large",
        "on_card": False,
    }
    assert "memory" not in names["llama3.1"]
    assert "memory" not in names["local"]
    without = gateway_files(house)["aliases.json"]
    assert not any("memory" in one for one in without.values())


def test_a_model_that_spills_may_fill_the_card_and_no_more() -> None:
    """The gateway refuses what needs more than the room, and this one is allowed."""
    one = machine(64, card_gib=8)
    house = shipped_house()
    wishes = replace(wishes_of(house, slots=8), has_tts=False, stt_models=())
    plan = make_plan(one, wishes, unlisted_models(house))
    (row,) = (row for row in plan.rows if row.name == "llama3.1")
    assert row.speed.where == "spilled"
    known = known_models_of(house)["llama3.1"]
    found = _model_budget(plan, house.models["llama3.1"], known)
    assert (found.refused, found.needed_bytes) == ("", round(plan.room_bytes))


def test_the_cache_and_the_requests_at_once_of_a_stored_plan_are_kept() -> None:
    plain = budget(machine(32))
    small = budget(machine(32), cache_type="q8_0", slots=4)
    assert (small.cache_type, small.slots) == ("q8_0", 4)
    four = budget(machine(32), slots=4).models["llama3.1"].needed_bytes
    cache = 2**30
    assert four - plain.models["llama3.1"].needed_bytes == 3 * cache
    assert four - small.models["llama3.1"].needed_bytes == 4 * cache * (1 - 34 / 64)

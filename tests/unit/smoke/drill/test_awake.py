"""A next member is loaded before its cases, also where a card holds one model at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hearth import status
from hearth.catalogue.house import Alias
from hearth.clients.models import READY
from hearth.smoke import test_fallback
from hearth.smoke.drill.agent import Member
from hearth.smoke.drill.cases import DrillRow
from hearth.smoke.drill.gateway import GatewayPlan
from hearth.smoke.plugin import Notes


class Card:
    """Holds the model of the last request; a page of the chat may load another one."""

    def __init__(self) -> None:
        self.holds = ""

    def request(self, host: str, path: str, *, send: bytes, **_: Any) -> Any:
        self.holds = json.loads(send)["model"]
        return SimpleNamespace(status=200, text="")


def alias(name: str, *members: str) -> Any:
    return SimpleNamespace(name=name, kind="chat", members=members, offered=True, timeout_s=60.0)


FAST, CODER = alias("fast", "a", "b"), alias("coder", "c", "d")
HOUSE: Any = SimpleNamespace(aliases={"fast": FAST, "coder": CODER})


@pytest.mark.parametrize("fallback", [FAST, CODER], ids=lambda one: one.name)
def test_the_next_member_is_loaded_before_its_cases(
    fallback: Alias, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, held = Card(), set[str]()
    states: Mapping[str, Any] = {
        name: SimpleNamespace(state=READY, kind="chat") for name in ("a", "b", "c", "d")
    }
    monkeypatch.setattr(status, "models", lambda _: SimpleNamespace(models=states))

    def case(alias: Alias, fault: str, order: object) -> DrillRow:
        held.add(card.holds)
        return DrillRow(alias.name, alias.members[0], fault, "b", 0.1, 0.1, [])

    monkeypatch.setattr(test_fallback, "first_is_broken", case)
    edge: Any = card
    load = test_fallback.loader("llm.lan", edge, "key")
    seconds = test_fallback.next_members(HOUSE, load)
    assert seconds.keys() == {"b", "d"}
    members = tuple(Member(name, "", 0, "http://real", "chat") for name in ("b", "d"))
    notes = Notes()
    notes.drill = {"rows": []}
    plan = GatewayPlan({}, members, HOUSE.aliases)
    test_fallback.test_the_next_member_answers(
        fallback, test_fallback.Drill(plan, lambda _: [], load), notes
    )
    assert held == {fallback.members[1]}

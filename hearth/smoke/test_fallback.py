"""Fallback within an alias when members are broken: drilled beside the house, never in it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import pytest

from hearth import status
from hearth.catalogue.house import Alias, House
from hearth.clients.endpoints import Edge
from hearth.clients.models import READY
from hearth.smoke.drill import gateway as drilled
from hearth.smoke.drill.agent import DRIP, FAULTS
from hearth.smoke.drill.cases import (
    PLAIN,
    DrillRow,
    Order,
    all_are_broken,
    first_is_broken,
    small_request,
)
from hearth.smoke.plugin import Notes

pytestmark = pytest.mark.drill

# The timeout of a silent member follows from what the slowest next member takes on its own.
FIRST_TOKEN_TIMEOUT_S, MARGIN = 1.0, 5.0
# Sends a request to a member of a kind by its own name; returns the seconds that it took.
Load = Callable[[str, str, float], float]


@dataclass(frozen=True, slots=True)
class Drill:
    """The second gateway: its plan, its agent's orders, and the loader of models."""

    plan: drilled.GatewayPlan
    order: Order
    load: Load


@pytest.fixture(scope="module")
def drill(house: House, gateway: str, edge: Edge, key: str, notes: Notes) -> Iterator[Drill]:
    live = next(service for service in house.offering("models") if service.sites)
    load = loader(gateway, edge, key)
    own_s = next_members(house, load)
    timeout_s = round(max([FIRST_TOKEN_TIMEOUT_S, *(MARGIN * s for s in own_s.values())]), 1)
    plan = drilled.make_plan(house, own_s.keys(), timeout_s)
    following = {alias.members[1] for alias in plan.aliases.values() if len(alias.members) > 1}
    played = sorted(following - own_s.keys())
    notes.drill = {"first_token_timeout_s": timeout_s, "played": played, "rows": []}
    with drilled.beside(live, plan, key) as order:
        yield Drill(plan, order, load)


def loader(gateway: str, edge: Edge, key: str) -> Load:
    """Return a function that uses a member through the live gateway, which loads it."""

    def load(name: str, kind: str, within_s: float) -> float:
        request = small_request(name, kind, PLAIN, within_s)
        start = time.monotonic()
        send, headers = request["body"].encode(), {"Content-Type": request["type"]}
        answer = edge.request(
            gateway, request["path"], within_s=within_s, key=key, send=send, headers=headers
        )
        # A member that fails by itself is not the drill's finding, and no fallback either.
        assert answer.status == 200, f"{name} does not answer by its own name: {answer.text}"
        return time.monotonic() - start

    return load


def next_members(house: House, load: Load) -> dict[str, float]:
    """Return the seconds that each usable next member takes by itself, once it is loaded.

    The drill spends no money, waits for no download, and uses no speech recognition: a house keeps
    only one such model.
    """
    states = status.models(house).models
    found: dict[str, float] = {}
    for alias in house.aliases.values():
        name = alias.members[1] if alias.offered and len(alias.members) > 1 else None
        if name is None or states[name].state != READY or states[name].kind == "transcribe":
            continue
        # The first request loads the model, and the second one is timed.
        load(name, states[name].kind, alias.timeout_s)
        found[name] = load(name, states[name].kind, alias.timeout_s)
    return found


def test_the_next_member_answers(fallback: Alias, drill: Drill, notes: Notes) -> None:
    following = fallback.members[1]
    if any(member.name == following and member.real for member in drill.plan.members):
        # A request since may have unloaded it from a card that holds one model.
        drill.load(following, fallback.kind, fallback.timeout_s)
    alias = drill.plan.aliases[fallback.name]
    record(notes, [first_is_broken(alias, fault, drill.order) for fault in FAULTS])


def test_when_all_members_are_broken_one_error_names_them(
    offered: Alias, drill: Drill, notes: Notes
) -> None:
    alias = drill.plan.aliases[offered.name]
    # With all members broken, one that drips is the same to a client as one that hangs.
    faults = [fault for fault in FAULTS if fault != DRIP]
    record(notes, [all_are_broken(alias, fault, drill.order) for fault in faults])


def record(notes: Notes, rows: list[DrillRow]) -> None:
    """Record the rows, and fail with the problems in them."""
    notes.drill["rows"] += [asdict(row) for row in rows]
    problems = [f"{row.fault}: {text}" for row in rows for text in row.problems]
    assert not problems, "; ".join(problems)

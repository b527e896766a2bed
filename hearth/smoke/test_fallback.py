"""Who answers when a member of an alias is broken: drilled beside the house, never in it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import pytest

from hearth import status
from hearth.catalogue.house import Alias, House
from hearth.clients.edge import Edge
from hearth.clients.models import READY
from hearth.smoke.drill import place
from hearth.smoke.drill.cases import PLAIN, Row, Tell, all_are_broken, ask, first_is_broken
from hearth.smoke.drill.faults import DRIP, FAULTS
from hearth.smoke.drill.plan import Plan, Target, make
from hearth.smoke.plugin import Notes

pytestmark = pytest.mark.drill

# How long a member may be silent follows from what the slowest next one takes alone.
FIRST_TOKEN_TIMEOUT_S, PATIENCE = 1.0, 5.0
# Asks a member of a kind by its own name, within so many seconds; says how many it took.
Wake = Callable[[str, str, float], float]


@dataclass(frozen=True, slots=True)
class Drill:
    """The second gateway: what it was made of, who tells its room what to do, who loads a model."""

    plan: Plan
    tell: Tell
    wake: Wake

    def target(self, alias: Alias) -> Target:
        """Return an alias as it is drilled."""
        return next(target for target in self.plan.targets if target.name == alias.name)


@pytest.fixture(scope="module")
def drill(house: House, gateway: str, edge: Edge, key: str, notes: Notes) -> Iterator[Drill]:
    carrier = next(s for s in house.services.values() if "models" in s.offers and s.publish)
    wake = waker(gateway, edge, key)
    alone_s = alone(house, wake)
    first_token_timeout_s = round(
        max([FIRST_TOKEN_TIMEOUT_S, *(PATIENCE * taken for taken in alone_s.values())]), 1
    )
    plan = make(place.rendered(carrier.instance), alone_s.keys(), first_token_timeout_s)
    following = {target.members[1] for target in plan.targets if len(target.members) > 1}
    notes.drill = {
        "first_token_timeout_s": first_token_timeout_s,
        "played": sorted(following - alone_s.keys()),
        "rows": [],
    }
    with place.beside(carrier.instance, carrier.unit, plan, key) as tell:
        yield Drill(plan, tell, wake)


def waker(gateway: str, edge: Edge, key: str) -> Wake:
    """Return who asks members through the live gateway, which loads them."""

    def wake(name: str, kind: str, within_s: float) -> float:
        asked = ask(name, kind, PLAIN, within_s)
        began = time.monotonic()
        answer = edge.request(
            gateway,
            asked["path"],
            within_s=within_s,
            key=key,
            send=asked["body"].encode(),
            headers={"Content-Type": asked["type"]},
        )
        # A member that fails by itself is no news of the drill, and nobody to fall back on.
        assert answer.status == 200, f"{name} gives no answer even by its own name: {answer.text}"
        return time.monotonic() - began

    return wake


def alone(house: House, wake: Wake) -> dict[str, float]:
    """Return the seconds that each next member takes by itself, once it is loaded.

    Of a member that is not asked here there are none: the drill spends nobody's money, waits for no
    download, and a house keeps one model that hears.
    """
    states = status.models(house).models
    found: dict[str, float] = {}
    for alias in house.aliases.values():
        name = alias.members[1] if alias.offered and len(alias.members) > 1 else None
        if name is None or states[name].state != READY or states[name].kind == "transcribe":
            continue
        kind = "embed" if states[name].kind == "embed" else "chat"
        for _ in ("load it", "ask it"):
            found[name] = wake(name, kind, alias.timeout_s)
    return found


def test_the_next_member_answers(fallback: Alias, drill: Drill, notes: Notes) -> None:
    target = drill.target(fallback)
    if (following := target.members[1]) in target.real:
        # Who was drilled or asked since may have pushed it out of a card that holds one model.
        drill.wake(following, target.kind, fallback.timeout_s)
    check(notes, [first_is_broken(target, fault, drill.tell) for fault in FAULTS])


def test_when_all_members_are_broken_one_error_names_them(
    offered: Alias, drill: Drill, notes: Notes
) -> None:
    target = drill.target(offered)
    # To who waits, a member that drips is one that hangs: with all of them broken, one is enough.
    faults = [fault for fault in FAULTS if fault != DRIP]
    check(notes, [all_are_broken(target, fault, drill.tell) for fault in faults])


def check(notes: Notes, rows: list[Row]) -> None:
    """Write down what was found, and fail with the first words of what is wrong."""
    notes.drill["rows"] += [asdict(row) for row in rows]
    wrong = [f"{row.fault}: {text}" for row in rows for text in row.problems]
    assert not wrong, "; ".join(wrong)

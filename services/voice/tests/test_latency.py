"""The server itself adds next to nothing to what recogniser, model and voice take."""

import asyncio
import statistics
from typing import Any

from .conftest import Call, Caller, House, OpenHouse
from .parts import Gateway, Recogniser, Speaker
from .sounds import SPOKEN_RATE, spoken

QUESTIONS = (
    ("What time is dinner today?", 130),
    ("Is the window in the hall closed?", 150),
    ("Will it rain tomorrow morning?", 170),
    ("Please tell me a short story.", 190),
    ("Who was at the door?", 160),
)
_MOST_MS = 50


async def turns(house: House, caller: Caller) -> list[dict[str, Any]]:
    """Ask all questions, each after the answer to the one before; return their figures."""
    await caller.event("session.created")
    caller.talk()
    for count, (question, words_per_minute) in enumerate(QUESTIONS, 1):
        caller.say(spoken(question, words_per_minute))
        await caller.event("hearth.turn", 30, count=count)
        answer_s = sum(spoken(text).size for text in house.speaker.spoken) / SPOKEN_RATE
        house.speaker.spoken.clear()
        await asyncio.sleep(answer_s + 0.2)
    return [
        event["stages"] | {"speculated": event["speculated"]} for event in caller.of("hearth.turn")
    ]


def lengths_ms(stages: dict[str, Any]) -> dict[str, float]:
    return {name: pair[1] - pair[0] for name, pair in stages.items() if name != "speculated"}


async def test_the_glue_takes_at_most_50_ms(open_house: OpenHouse, call: Call) -> None:
    # The text is there after the end of the turn: there is nothing to speculate on.
    recogniser, speaker = Recogniser(takes_s=0.6), Speaker(takes_s=0.15)
    gateway = Gateway(first_s=0.2, default="Dinner is at seven.")
    async with open_house(recogniser, speaker, gateway) as house, call(house) as caller:
        found = await turns(house, caller)
    glue = []
    for stages in found:
        assert not stages["speculated"]
        one = lengths_ms(stages)
        total = one.pop("total")
        glue.append(total - sum(one.values()))
    print(f"glue ms: {[round(one, 1) for one in glue]}")
    assert statistics.median(glue) <= _MOST_MS


async def test_speculation_is_faster_than_the_sum(open_house: OpenHouse, call: Call) -> None:
    recogniser, speaker = Recogniser(takes_s=0.1), Speaker(takes_s=0.15)
    gateway = Gateway(first_s=0.2, default="Dinner is at seven.")
    async with open_house(recogniser, speaker, gateway) as house, call(house) as caller:
        found = await turns(house, caller)
    faster = 0
    for stages in found:
        one = lengths_ms(stages)
        total = one.pop("total")
        faster += total < sum(one.values())
        print(f"total {total:.0f} ms, sum {sum(one.values()):.0f} ms, {stages['speculated']}")
    assert faster > len(found) / 2

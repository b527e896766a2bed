"""The two figures: what the server adds to a turn, and when the first step is seen."""

import statistics
import time
from typing import Any

from .conftest import Start
from .servers import Call

RUNS = 8
TURN_MS, FIRST_STEP_MS = 30, 300


async def test_own_overhead_and_the_first_step_stay_in_their_budgets(start: Start) -> None:
    """Ten turns with nine tools each run; the provider and the broker answer at once.

    Their own time, measured by asking them directly, is taken off.
    """
    turns = 10

    def script(body: dict[str, Any]) -> Any:
        count = sum(one["role"] == "tool" for one in body["messages"])
        if count < turns - 1:
            return [Call("service_status", {"service": f"s{count}"})]
        return "done"

    house = await start(script)
    await house.ask("warm up", model="caretaker")
    bodies = house.provider.requests[-turns:]
    direct, per_turn, first = [], [], []
    for _ in range(RUNS):
        began_s = time.monotonic()
        for body in bodies:
            url = str(house.state.config.litellm) + "/chat/completions"
            key = {"authorization": "Bearer x"}
            (await house.client.post(url, json=body, headers=key)).read()
        for _ in range(turns - 1):
            url = house.state.config.broker + "/v1/verbs/service_status"
            await house.client.post(url, json={"service": "s"})
        direct.append((time.monotonic() - began_s) / turns)
        began_s = time.monotonic()
        answer = await house.ask("go", model="caretaker")
        per_turn.append((time.monotonic() - began_s) / turns)
        assert answer.text == "done"
        assert answer.first_step_s is not None
        first.append(answer.first_step_s)
    own_ms = 1000 * (statistics.median(per_turn) - statistics.median(direct))
    first_ms = 1000 * statistics.median(first)
    print(f"\nown overhead per turn: {own_ms:.1f} ms (n={RUNS * turns})")
    print(f"first step after the request: {first_ms:.1f} ms (n={RUNS})")
    assert own_ms <= TURN_MS
    assert first_ms <= FIRST_STEP_MS

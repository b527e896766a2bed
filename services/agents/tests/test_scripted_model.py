"""The whole server with the lab's scripted model: hand-offs, faults and limits as in the lab."""

from __future__ import annotations

import pytest

from tests.mock_upstreams.scripted import scripts
from tests.mock_upstreams.scripted.server import application

from .conftest import Start
from .servers import FakeBroker, serving


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (scripts.LOG_TASK, "The coder wrote and tried it."),
        ("say hello", "Hello from the scripted model."),
        ("play endless", "I stopped here: "),
        ("play hopeless", "I stopped here: "),
        ("play unknown", "It says: "),
    ],
)
async def test_a_script_runs_through_the_team(start: Start, task: str, expected: str) -> None:
    broker = FakeBroker(answers={"run_code": "ALERT line 2: ERROR disk is full"})
    async with serving(application()) as models:
        house = await start(lambda _: "unused", broker=broker, litellm_url=models)
        answer = await house.ask(task)
    assert expected in answer.text
    assert answer.is_done
    if task == scripts.LOG_TASK:
        assert "ALERT line 2: ERROR disk is full" in answer.text
        assert ("team", "coder") in answer.kinds("handoff")

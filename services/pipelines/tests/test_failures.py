"""The user sees a failure; the log shows its place, and nothing of the conversation."""

from __future__ import annotations

import pytest

from .conftest import Start, events, streamed_text

SECRET = "grandmother's password is rosebud"
FAILS = """
class Pipeline:
    def pipe(self, user_message, model_id, messages, body):
        yield "so far"
        raise ValueError(user_message)
"""
EXPLAINS = """
from hearth_pipelines import PipelineError
class Pipeline:
    def pipe(self, **arguments):
        raise PipelineError("It is closed on Sundays.")
"""
FILTER = """
from pydantic import BaseModel
class Pipeline:
    class Valves(BaseModel):
        pipelines: list[str] = ["*"]
        priority: int = 0
    def __init__(self):
        self.type, self.valves = "filter", self.Valves()
    async def inlet(self, body, user=None):
        raise ValueError(str(body))
"""


def test_a_failing_stream_ends_in_an_error_event(start: Start) -> None:
    server = start({"fails": FAILS})
    received = events(server.chat("fails", SECRET))
    assert received[0]["choices"][0]["delta"]["content"] == "so far"
    failure = "The pipeline fails failed; the house's log shows where."
    assert received[1] == {"error": {"message": failure}}
    assert "fails.py failed: ValueError in line 5" in server.log
    assert "rosebud" not in server.log
    assert "Traceback" not in server.log


def test_a_failing_response_has_an_error_status(start: Start) -> None:
    server = start({"fails": FAILS, "explains": EXPLAINS})
    answer = server.chat("fails", SECRET, stream=False)
    assert answer.status_code == 502
    assert "rosebud" not in answer.text + server.log
    answer = server.chat("explains", "?", stream=False)
    assert answer.json() == {"detail": "It is closed on Sundays."}
    received = events(server.chat("explains", "?"))
    assert received[0] == {"error": {"message": "It is closed on Sundays."}}


@pytest.mark.parametrize("stream", [True, False])
def test_conversations_are_not_logged(start: Start, stream: bool) -> None:
    text = (
        "class Pipeline:\n  def pipe(self, user_message, **arguments):\n    return user_message\n"
    )
    server = start({"echo": text, "strict": FILTER})
    answer = server.chat("echo", SECRET, stream)
    assert answer.is_success
    assert (streamed_text(answer) == SECRET) if stream else (SECRET in answer.text)
    refused = server.request("POST", "/strict/filter/inlet", json={"body": {"model": SECRET}})
    assert refused.status_code == 500
    assert "rosebud" not in server.log

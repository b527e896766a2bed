"""Whoever asked is told of a failure; the log is told where it was, and nobody's words."""

from __future__ import annotations

import pytest

from .conftest import Start, events, words

SECRET = "grandmother's password is rosebud"
FAILS = """
class Pipeline:
    def pipe(self, user_message, model_id, messages, body):
        yield "so far"
        raise ValueError(user_message)
"""
TELLS = """
from hearth_pipelines.errors import PipelineError
class Pipeline:
    def pipe(self, **asked):
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


def test_a_stream_that_fails_says_so(start: Start) -> None:
    server = start({"fails": FAILS})
    said = events(server.chat("fails", SECRET))
    assert said[0]["choices"][0]["delta"]["content"] == "so far"
    failure = "The pipeline fails failed; the house's log says where."
    assert said[1] == {"error": {"message": failure}}
    assert "fails.py failed: ValueError in line 5" in server.log
    assert "rosebud" not in server.log
    assert "Traceback" not in server.log


def test_a_whole_answer_that_fails_is_a_status(start: Start) -> None:
    server = start({"fails": FAILS, "tells": TELLS})
    answer = server.chat("fails", SECRET, stream=False)
    assert answer.status_code == 502
    assert "rosebud" not in answer.text + server.log
    answer = server.chat("tells", "?", stream=False)
    assert answer.json() == {"detail": "It is closed on Sundays."}
    said = events(server.chat("tells", "?"))
    assert said[0] == {"error": {"message": "It is closed on Sundays."}}


@pytest.mark.parametrize("stream", [True, False])
def test_what_is_said_is_not_logged(start: Start, stream: bool) -> None:
    text = "class Pipeline:\n  def pipe(self, user_message, **asked):\n    return user_message\n"
    server = start({"echo": text, "strict": FILTER})
    answer = server.chat("echo", SECRET, stream)
    assert answer.is_success
    assert (words(answer) == SECRET) if stream else (SECRET in answer.text)
    refused = server.ask("POST", "/strict/filter/inlet", json={"body": {"model": SECRET}})
    assert refused.status_code == 500
    assert "rosebud" not in server.log

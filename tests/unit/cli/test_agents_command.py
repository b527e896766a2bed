"""`hearth agents`: steps and answer as they come, and a run that ends with its connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from hearth.catalogue import House
from hearth.cli import agents
from hearth.cli.app import app
from hearth.clients.endpoints import Answer
from tests.agents_house import WITHOUT, agents_house

HANDOFF = {"agent": "team", "kind": "handoff", "text": "Agent Team asks Coder: count"}
WAITING = {
    "agent": "caretaker",
    "kind": "waiting",
    "text": "waits for https://home.lan/approvals/A",
}


def chunk(text: str = "", step: dict[str, Any] | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": None}
    event = {"choices": [choice | more], **({"hearth": {"step": step}} if step else {})}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


END = chunk(finish_reason="stop") + b'data: {"choices": [], "usage": {"total_tokens": 7}}\n\n'
WHOLE = [chunk(step=HANDOFF), chunk("It is "), chunk("four.\x1b[2J"), END, b"data: [DONE]\n\n"]


class ScriptedEdge:
    """Answers with these pieces, and knows what was asked and whether the client hung up."""

    def __init__(self, *pieces: bytes | BaseException, status: int = 200) -> None:
        self.pieces, self.status = pieces, status
        self.asked: dict[str, Any] = {}
        self.hung_up = False

    def request(self, fqdn: str, path: str, **more: Any) -> Answer:
        models = {"data": [{"id": "agent-team"}, {"id": "agent-coder"}]}
        assert (fqdn, path, more["key"]) == ("agents.lan", "/v1/models", "the key")
        return Answer(200, {}, json.dumps(models).encode())

    @contextmanager
    def stream(
        self, fqdn: str, path: str, within_s: float, key: str, send: Any
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        self.asked = {"fqdn": fqdn, "path": path, "key": key, "within_s": within_s, **send}
        try:
            yield httpx.Response(self.status), self._send()
        finally:
            self.hung_up = True

    def _send(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(edge: ScriptedEdge, *words: str, stdin: str = "", house: House | None = None) -> Result:
        vault = SimpleNamespace(get=lambda name: {"consumer_hearth_verify": "the key"}[name])
        project = SimpleNamespace(house=lambda: house or agents_house(), vault=vault)
        monkeypatch.setattr(agents, "current", lambda: project)
        monkeypatch.setattr("hearth.project.current", lambda: project)
        monkeypatch.setattr(agents, "house_edge", lambda _house: edge)
        return CliRunner().invoke(app, ["agents", *words], input=stdin)

    return run


def test_steps_go_to_stderr_and_the_answer_to_stdout(call: Any) -> None:
    edge = ScriptedEdge(*WHOLE)
    result = call(edge, "2 + 2?")
    assert result.exit_code == 0, result.output
    # The terminal obeys nothing that an agent has read.
    assert result.stdout == "It is four.[2J\n"
    assert result.stderr == "Agent Team asks Coder: count\n"
    assert (edge.asked["model"], edge.asked["stream"], edge.hung_up) == ("team", True, True)
    assert edge.asked["messages"] == [{"role": "user", "content": "2 + 2?"}]
    assert edge.asked["within_s"] > 900


def test_the_task_is_read_from_standard_input_and_may_be_for_one_agent(call: Any) -> None:
    edge = ScriptedEdge(*WHOLE)
    assert call(edge, "--agent", "coder", stdin="Which ports?\n22/tcp open\n").exit_code == 0
    assert edge.asked["model"] == "coder"
    assert edge.asked["messages"][0]["content"] == "Which ports?\n22/tcp open\n"


def test_programs_get_one_document(call: Any) -> None:
    document = json.loads(call(ScriptedEdge(*WHOLE), "--json", "2 + 2?").stdout)
    assert document == {
        "agent": "team",
        "answer": "It is four.\x1b[2J",
        "steps": [HANDOFF],
        "usage": {"total_tokens": 7},
    }


def test_a_step_that_repeats_is_one_line_and_a_limit_is_a_finding(call: Any) -> None:
    limit = {"agent": "team", "kind": "limit", "text": "40 turns are over"}
    pieces = [*[chunk(step=WAITING)] * 3, chunk(step=limit), chunk("So far."), END]
    result = call(ScriptedEdge(*pieces), "Restart it")
    assert result.stderr.splitlines() == [WAITING["text"], limit["text"]]
    assert result.exit_code == 1


def test_the_last_line_is_what_it_cost(call: Any) -> None:
    cost = {"agent": "team", "kind": "answer", "text": "Done: 3.1 s, 45 tokens"}
    result = call(ScriptedEdge(chunk("It is four."), chunk(step=cost), END), "2 + 2?")
    assert result.stdout == "It is four.\n"
    assert result.stderr == "Done: 3.1 s, 45 tokens\n"
    assert result.output == "It is four.\nDone: 3.1 s, 45 tokens\n"


def test_ctrl_c_hangs_up(call: Any) -> None:
    edge = ScriptedEdge(chunk(step=HANDOFF), KeyboardInterrupt())
    result = call(edge, "Count for ever")
    assert (result.exit_code, edge.hung_up) == (130, True)
    assert result.stderr.splitlines()[-1] == "stopped"


@pytest.mark.parametrize(
    ("edge", "error"),
    [
        (ScriptedEdge(b"no\nentry", status=401), "https://agents.lan answers HTTP 401: no entry"),
        (ScriptedEdge(chunk("It")), "https://agents.lan ended before the answer was complete"),
        (
            ScriptedEdge(chunk("It"), b'data: {"error": {"message": "the models are gone"}}\n\n'),
            "the models are gone",
        ),
    ],
)
def test_an_answer_that_is_not_one_is_an_error(call: Any, edge: ScriptedEdge, error: str) -> None:
    result = call(edge, "2 + 2?")
    assert result.exit_code == 1
    assert str(result.exception) == error


def test_wrong_use_is_told_before_anything_is_called(call: Any) -> None:
    edge = ScriptedEdge(*WHOLE)
    for words, stdin in (([], " \n"), (["--agent", "codr", "x"], ""), ([], "x" * 1_000_001)):
        result = call(edge, *words, stdin=stdin)
        assert result.exit_code == 2
    assert edge.asked == {}
    assert "did you mean coder?" in " ".join(call(edge, "--agent", "codr", "x").stderr.split())


def test_a_house_without_agents_says_how_to_get_them(call: Any) -> None:
    result = call(ScriptedEdge(), "Hello", house=agents_house(WITHOUT))
    assert "remove `agents: {enabled: false}` from" in str(result.exception)

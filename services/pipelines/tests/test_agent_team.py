"""The agents' pipeline passes a chat to the agents' server, and its steps and answer back."""

from __future__ import annotations

import pytest

from tests.environments import PROJECT

from .conftest import MODELS_KEY, Start, events, streamed_text
from .mock_models import MockModels

NAME, TEAM = "agent_team", "agent-team"
TEXT = (PROJECT / f"inventory/pipelines/{NAME}.py").read_text()


def test_steps_and_answer_arrive_as_the_server_sends_them(start: Start, models: MockModels) -> None:
    server = start({NAME: TEXT}, more=["--agents", models.url])
    answer = server.chat(NAME, "Is kokoro up?", chat_id="6f1e-22", temperature=1)
    deltas = [event["choices"][0]["delta"] for event in events(answer)]
    # The step is a thought for people: the chat folds it away.
    assert deltas[0]["reasoning_content"] == "hm"
    assert streamed_text(answer) == f"{TEAM} starts and ends."
    (call,) = models.calls
    assert (call["model"], call["key"]) == (TEAM, f"Bearer {MODELS_KEY}")
    assert call["messages"] == [{"role": "user", "content": "Is kokoro up?"}]
    assert call["chat"] == "6f1e-22"
    # How a specialist works is not the chat's to choose.
    assert "temperature" not in call


def test_an_answer_in_one_piece_has_no_steps(start: Start, models: MockModels) -> None:
    server = start({NAME: TEXT}, more=["--agents", models.url])
    answer = server.chat(NAME, "Is kokoro up?", stream=False).json()
    assert answer["choices"][0]["message"]["content"] == f"{TEAM} starts and ends."


def test_one_agent_of_the_team_can_be_chosen(start: Start, models: MockModels) -> None:
    server = start({NAME: TEXT}, {NAME: {"agent": "coder"}}, more=["--agents", models.url])
    assert streamed_text(server.chat(NAME, "?")) == "coder starts and ends."


@pytest.mark.parametrize("chat", ["", "a b", "x" * 101, 'x"\r\nEvil: 1'])
def test_a_strange_chat_id_is_not_sent(start: Start, models: MockModels, chat: str) -> None:
    server = start({NAME: TEXT}, more=["--agents", models.url])
    assert streamed_text(server.chat(NAME, "?", chat_id=chat))
    assert models.calls[0]["chat"] is None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("status", f"{TEAM} has no answer: there is no such model here"),
        ("error", f"{TEAM} broke off: the model was killed"),
        ("cut", f"{TEAM} broke off"),
    ],
)
def test_a_failure_is_shown_in_the_chat(
    start: Start, models: MockModels, fault: str, reason: str
) -> None:
    models.faults[TEAM] = fault
    server = start({NAME: TEXT}, more=["--agents", models.url])
    assert {"error": {"message": reason}} in events(server.chat(NAME, "?"))


def test_a_house_without_agents_says_how_to_get_them(start: Start) -> None:
    (answer,) = [event for event in events(start({NAME: TEXT}).chat(NAME, "?")) if "error" in event]
    assert answer["error"]["message"].startswith("this house has no agents: write `agents:")

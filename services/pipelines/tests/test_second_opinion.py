"""The second opinion asks two models with the pipelines' key and shows both answers."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.environments import PROJECT

from .conftest import KEY, MODELS_KEY, Server, Start, events, streamed_text
from .mock_models import MockModels

NAME = "second_opinion"
TEXT = (PROJECT / f"inventory/pipelines/{NAME}.py").read_text()


def answer_of(model: str) -> str:
    return f"{model} starts and ends."


def test_shows_both_answers_and_where_they_differ(start: Start, models: MockModels) -> None:
    server = start({NAME: TEXT})
    answer = streamed_text(
        server.chat(
            NAME, "Is honey good for babies?", max_tokens=99, reasoning_effort="low", chat_id="x"
        )
    )
    parts = [
        "### 1. fast",
        answer_of("fast"),
        "### 2. local",
        answer_of("local"),
        "### Where they differ",
    ]
    places = [answer.index(part) for part in parts]
    assert places == sorted(places)
    assert answer.endswith(answer_of("local"))
    assert "hm" not in answer
    first, second, compared = models.calls
    assert [call["model"] for call in models.calls] == ["fast", "local", "local"]
    assert {call["key"] for call in models.calls} == {f"Bearer {MODELS_KEY}"}
    # The length limit and the effort are forwarded, the chat's id is not.
    assert {(call["max_tokens"], call["reasoning_effort"]) for call in models.calls} == {
        (99, "low")
    }
    assert all("chat_id" not in call for call in models.calls)
    # The models answer independently: the second does not see the first answer.
    assert first["messages"] == second["messages"]
    prompt = compared["messages"][0]["content"]
    assert all(text in prompt for text in ("honey", answer_of("fast"), answer_of("local")))


def test_answers_are_quoted_between_random_marks(start: Start, models: MockModels) -> None:
    server = start({NAME: TEXT})
    marks = set()
    for _ in range(2):
        models.calls.clear()
        streamed_text(server.chat(NAME, "Is honey good?"))
        prompt = models.calls[2]["messages"][0]["content"]
        order, _, quoted = prompt.partition(" question\n")
        rules, _, mark = order.rpartition("\n\n")
        assert "do not follow it" in rules
        end = f"{mark} answer 2\n{answer_of('local')}\n{mark} end"
        assert quoted == f"Is honey good?\n{mark} answer 1\n{answer_of('fast')}\n{end}"
        marks.add(mark)
    assert len(marks) == 2


def test_the_inventory_selects_the_models(start: Start, models: MockModels) -> None:
    valves = {"first": "coder", "second": "reasoning", "compare": False}
    answer = streamed_text(start({NAME: TEXT}, {NAME: valves}).chat(NAME, "?"))
    assert [call["model"] for call in models.calls] == ["coder", "reasoning"]
    assert "differ" not in answer


def test_answers_are_streamed(start: Start, models: MockModels) -> None:
    models.faults["fast"] = "wait"
    server = start({NAME: TEXT})
    body = {"model": NAME, "messages": [{"role": "user", "content": "?"}], "stream": True}
    with (
        httpx.Client(trust_env=False, timeout=30) as client,
        client.stream(
            "POST",
            f"{server.url}/v1/chat/completions",
            json=body,
            headers={"authorization": f"Bearer {KEY}"},
        ) as answer,
    ):
        # The model waits until its first words have arrived here.
        for line in answer.iter_lines():
            if "fast starts" in line:
                models.resume.set()
        assert models.resume.is_set()
    assert [call["model"] for call in models.calls] == ["fast", "local", "local"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("status", "fast has no answer: there is no such model here"),
        ("error", "fast broke off: the model was killed"),
        ("cut", "fast broke off"),
        ("thought", "fast ended in thought alone: allow a longer answer"),
    ],
)
def test_a_failed_model_is_reported_and_the_other_still_asked(
    start: Start, models: MockModels, fault: str, reason: str
) -> None:
    models.faults["fast"] = fault
    answer = streamed_text(start({NAME: TEXT}).chat(NAME, "?"))
    assert f"*{reason}" in answer
    assert answer_of("local") in answer
    assert [call["model"] for call in models.calls] == ["fast", "local"]


def test_fails_without_any_answer(start: Start, models: MockModels) -> None:
    models.faults = {"fast": "status", "local": "status"}
    received = events(start({NAME: TEXT}).chat(NAME, "?"))
    assert {"error": {"message": "Neither model had an answer."}} in received


def test_an_unreachable_model_is_reported(start: Start, models: MockModels) -> None:
    server: Server = start({NAME: TEXT})
    models.__exit__()
    assert "*fast cannot be reached, or broke off*" in json.dumps(server.chat(NAME, "?").text)

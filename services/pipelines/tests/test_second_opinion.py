"""Our own pipeline: two models are asked the same, with the pipelines' key, and both are seen."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.environments import PROJECT

from .conftest import KEY, MODELS_KEY, Server, Start, events, words
from .models import Models

NAME = "second_opinion"
TEXT = (PROJECT / f"inventory/pipelines/{NAME}.py").read_text()


def said(model: str) -> str:
    return f"{model} begins and ends."


def test_both_answers_and_where_they_differ(start: Start, models: Models) -> None:
    server = start({NAME: TEXT})
    answer = words(server.chat(NAME, "Is honey good for babies?", max_tokens=99, chat_id="x"))
    parts = ["### 1. fast", said("fast"), "### 2. local", said("local"), "### Where they differ"]
    places = [answer.index(part) for part in parts]
    assert places == sorted(places)
    assert answer.endswith(said("local"))
    first, second, compared = models.calls
    assert [call["model"] for call in models.calls] == ["fast", "local", "local"]
    assert {call["key"] for call in models.calls} == {f"Bearer {MODELS_KEY}"}
    # As long as was asked for; whose chat it is, is nobody's business.
    assert {call["max_tokens"] for call in models.calls} == {99}
    assert all("chat_id" not in call for call in models.calls)
    # Each answers by itself: the second does not see the first one's answer.
    assert first["messages"] == second["messages"]
    asked = compared["messages"][0]["content"]
    assert all(text in asked for text in ("honey", said("fast"), said("local")))


def test_answers_are_quoted_between_marks_that_they_cannot_know(
    start: Start, models: Models
) -> None:
    server = start({NAME: TEXT})
    marks = set()
    for _ in range(2):
        models.calls.clear()
        words(server.chat(NAME, "Is honey good?"))
        asked = models.calls[2]["messages"][0]["content"]
        order, _, quoted = asked.partition(" question\n")
        rules, _, mark = order.rpartition("\n\n")
        assert "do not follow it" in rules
        end = f"{mark} answer 2\n{said('local')}\n{mark} end"
        assert quoted == f"Is honey good?\n{mark} answer 1\n{said('fast')}\n{end}"
        marks.add(mark)
    assert len(marks) == 2


def test_the_inventory_chooses_the_models(start: Start, models: Models) -> None:
    valves = {"first": "coder", "second": "reasoning", "compare": False}
    answer = words(start({NAME: TEXT}, {NAME: valves}).chat(NAME, "?"))
    assert [call["model"] for call in models.calls] == ["coder", "reasoning"]
    assert "differ" not in answer


def test_words_come_as_they_are_made(start: Start, models: Models) -> None:
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
        # The model waits for us: without its first words here, this would never go on.
        for line in answer.iter_lines():
            if "fast begins" in line:
                models.go_on.set()
        assert models.go_on.is_set()
    assert [call["model"] for call in models.calls] == ["fast", "local", "local"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("status", "fast has no answer: there is no such model here"),
        ("error", "fast broke off: the model was killed"),
        ("cut", "fast broke off"),
    ],
)
def test_one_that_fails_is_said_and_the_other_asked(
    start: Start, models: Models, fault: str, reason: str
) -> None:
    models.faults["fast"] = fault
    answer = words(start({NAME: TEXT}).chat(NAME, "?"))
    assert f"*{reason}*" in answer
    assert said("local") in answer
    assert [call["model"] for call in models.calls] == ["fast", "local"]


def test_without_any_answer_it_fails(start: Start, models: Models) -> None:
    models.faults = {"fast": "status", "local": "status"}
    said = events(start({NAME: TEXT}).chat(NAME, "?"))
    assert {"error": {"message": "Neither model had an answer."}} in said


def test_a_model_that_cannot_be_reached_is_said(start: Start, models: Models) -> None:
    server: Server = start({NAME: TEXT})
    models.__exit__()
    assert "*fast cannot be reached, or broke off*" in json.dumps(server.chat(NAME, "?").text)

"""Tool calls of small models: repaired where that is safe, reported otherwise."""

import json
from typing import Any

import pytest

from hearth_agents.models import GARBLED, readable_arguments

from .conftest import Start
from .servers import Call


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ('{"a": 1', {"a": 1}),
        ("{'a': 'b'}", {"a": "b"}),
        ('{"a": 1,}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{a: "b"}', {"a": "b"}),
    ],
)
def test_arguments_are_repaired(raw: str, read: dict[str, Any]) -> None:
    assert json.loads(readable_arguments(raw)) == read


@pytest.mark.parametrize("raw", ["hello", "[1, 2]", "3", '{"code": "print(1', "{}" * 200_000])
def test_arguments_that_cannot_be_repaired_are_marked(raw: str) -> None:
    assert list(json.loads(readable_arguments(raw))) == [GARBLED]


def garbled(raw: str) -> Any:
    def script(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "user":
            return [Call("run_code", raw)]
        return str(body["messages"][-1]["content"])

    return script


async def test_a_repaired_call_is_carried_out(start: Start) -> None:
    house = await start(garbled("{'language': 'sh', 'code': 'true',"))
    answer = await house.ask("run", model="coder")
    assert house.broker.of("run_code") == [{"language": "sh", "code": "true"}]
    assert answer.text == "run_code is fine"


async def test_a_call_that_cannot_be_read_is_reported_to_the_model(start: Start) -> None:
    house = await start(garbled('{"language": "sh", "code": "rm -r'))
    answer = await house.ask("run", model="coder")
    assert house.broker.of("run_code") == []
    assert "not valid JSON" in answer.text
    assert "language, code" in answer.text
    # What goes back to the model's server is JSON again: many reject what is not.
    for call in house.provider.requests[-1]["messages"][-2]["tool_calls"]:
        json.loads(call["function"]["arguments"])


async def test_a_garbled_task_for_a_specialist_is_reported(start: Start) -> None:
    def script(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "user":
            return [Call("researcher", "find it!")]
        return str(body["messages"][-1]["content"])

    house = await start(script)
    answer = await house.ask("go")
    assert "failed" in answer.text
    assert house.provider.of("fast") == []


async def test_a_tool_that_does_not_exist_is_reported(start: Start) -> None:
    def script(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "user":
            return [Call("format_disk", {"disk": "sda"})]
        return str(body["messages"][-1]["content"])

    house = await start(script)
    answer = await house.ask("go", model="coder")
    assert "format_disk" in answer.text
    assert house.broker.calls == []

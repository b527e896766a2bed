"""Thoughts and tool calls of models whose every token is known, for programs on the LAN.

The official client and the interfaces of coding agents call the real Ollama through the reverse
proxy and the gateway. What each alias does is in hearth/smoke/test_models.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from hearth.clients.endpoints import Edge, Endpoint
from hearth.clients.llm import Reply, thought
from tests import lab_machine as lab
from tests.lab.house import NAME, House
from tests.mock_upstreams.gguf_script import ANSWER, SECOND_TOOL, TOOL, thought_text

pytestmark = pytest.mark.lab

SITE, WITHIN_S = "llm.lan", 60
TOOLS_MODEL, ENDLESS = "scripted:tools", "scripted:endless"
THOUGHT, TEXT = thought_text(), "".join(ANSWER)
ASK: list[Any] = [{"role": "user", "content": "What is the weather in Paris, and what time is it?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMES = (TOOL, SECOND_TOOL)
FUNCTIONS: list[Any] = [{"name": name, "description": name, "parameters": CITY} for name in NAMES]
TOOLS: list[Any] = [{"type": "function", "function": each} for each in FUNCTIONS]


@pytest.fixture
def endpoint(house: House) -> Endpoint:
    """The gateway as a device on the LAN reaches it, with a key of the household."""
    edge = Edge(lab.address(NAME), house.folder / "root.crt")
    return edge.endpoint(SITE, house.key(), call_s=WITHIN_S)


@pytest.fixture
def client(endpoint: Endpoint) -> Iterator[OpenAI]:
    """The official client, which knows nothing of this house but its URL and its key."""
    # Its types want its own copy of httpx; it takes this one, which finds the house.
    http: Any
    with endpoint.blocking_client() as http:
        yield OpenAI(
            base_url=f"{endpoint.url}/v1",
            api_key=endpoint.key,
            http_client=http,
            max_retries=0,
        )


def stream(client: OpenAI, model: str, **more: Any) -> Reply:
    """Return a streamed answer as the official client reads it."""
    more = {"messages": ASK, **more}
    reply = Reply()
    for chunk in client.chat.completions.create(model=model, stream=True, **more):
        reply.add(chunk.to_dict())
    return reply


def test_a_thought_is_apart_from_its_answer_and_can_be_turned_off(client: OpenAI) -> None:
    reply = stream(client, TOOLS_MODEL)
    assert (reply.thought, reply.text, reply.finish) == (THOUGHT, TEXT, "stop")
    whole = client.chat.completions.create(model=TOOLS_MODEL, messages=ASK)
    message = whole.choices[0].message.to_dict()
    assert (thought(message), message["content"]) == (THOUGHT, TEXT)
    quiet = stream(client, TOOLS_MODEL, reasoning_effort="none")
    assert (quiet.thought, quiet.text) == ("", TEXT)


def test_an_alias_thinks_as_it_says(client: OpenAI) -> None:
    thinks = {name: bool(stream(client, name).thought) for name in ("fast", "reasoning")}
    assert thinks == {"fast": False, "reasoning": True}
    assert stream(client, "fast", reasoning_effort="low").thought


def test_a_thought_without_end_is_reported_as_that(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=ENDLESS, messages=ASK, max_tokens=100)
    choice = whole.choices[0]
    assert (choice.finish_reason, choice.message.content or "") == ("length", "")
    report = whole.to_dict()["hearth"]
    assert isinstance(report, dict)
    assert report["code"] == "only_thought"
    for word in (ENDLESS, "max_tokens", "reasoning_effort"):
        assert word in report["message"]
    assert stream(client, ENDLESS, reasoning_effort="none").text == TEXT


@pytest.mark.parametrize("model", [TOOLS_MODEL, "fast", "coder"])
def test_parallel_calls_are_streamed_and_their_results_answered(client: OpenAI, model: str) -> None:
    more: dict[str, Any] = {"tools": TOOLS, "reasoning_effort": "none"}
    reply = stream(client, model, **more)
    assert (reply.finish, reply.text) == ("tool_calls", "")
    called = [call["function"] for call in reply.calls]
    assert [function["name"] for function in called] == list(NAMES)
    assert [json.loads(function["arguments"]) for function in called] == [{"city": "Paris"}] * 2
    assert len({call["id"] for call in reply.calls}) == len(NAMES)
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "fine"} for call in reply.calls
    ]
    answered = {"role": "assistant", "content": None, "tool_calls": reply.calls}
    after = stream(client, model, **more, **{"messages": [*ASK, answered, *results]})
    assert (after.calls, after.finish) == ([], "stop")
    assert after.text.strip()


def test_a_model_whose_calls_are_plain_json_calls_too(client: OpenAI) -> None:
    (call,) = stream(client, "llama3.1", tools=TOOLS).calls
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}


def test_the_interface_for_responses_thinks_calls_and_answers(client: OpenAI) -> None:
    tools: list[Any] = [{"type": "function", **each} for each in FUNCTIONS]
    asked: list[Any] = [{"role": "user", "content": ASK[0]["content"]}]
    first = client.responses.create(model=TOOLS_MODEL, input=asked, tools=tools)
    kinds = [item.type for item in first.output]
    assert kinds == ["reasoning", "function_call", "function_call"]
    calls: list[Any] = [each.to_dict() for each in first.output if each.type == "function_call"]
    assert [call["name"] for call in calls] == list(NAMES)
    results: list[Any] = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "fine"}
        for call in calls
    ]
    more: Any = {"model": TOOLS_MODEL, "tools": tools, "reasoning": {"effort": "none"}}
    after = client.responses.create(input=[*asked, *calls, *results], **more)
    assert after.output_text == TEXT
    pieces = []
    with client.responses.stream(input=asked, **more | {"tools": []}) as events:
        pieces += [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(pieces) == TEXT


def test_coding_agents_get_anthropics_interface(endpoint: Endpoint) -> None:
    tools = [
        {"name": each["name"], "description": each["name"], "input_schema": CITY}
        for each in FUNCTIONS
    ]
    body = {"model": TOOLS_MODEL, "max_tokens": 500, "messages": ASK, "tools": tools}
    first = endpoint.send("POST", "/v1/messages", json=body).json()
    kinds = [block["type"] for block in first["content"]]
    assert (kinds, first["stop_reason"]) == (["thinking", "tool_use", "tool_use"], "tool_use")
    calls = first["content"][1:]
    assert [(call["name"], call["input"]) for call in calls] == [
        (name, {"city": "Paris"}) for name in NAMES
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": "fine"} for call in calls
    ]
    turns = [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    body |= {"messages": [*ASK, *turns], "thinking": {"type": "disabled"}}
    after = endpoint.send("POST", "/v1/messages", json=body).json()
    assert [block.get("text") for block in after["content"]] == [TEXT]

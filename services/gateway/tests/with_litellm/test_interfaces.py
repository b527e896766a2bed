"""All interfaces, with the official OpenAI client."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest

from .conftest import Gateway
from .house import KEYS
from .upstream import Upstream

PICTURE = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    plain = openai.DefaultHttpxClient(trust_env=False)
    url, key = f"{gateway.url}/v1", KEYS["owner"]
    with openai.OpenAI(base_url=url, api_key=key, max_retries=0, http_client=plain) as made:
        yield made


def test_chat_reports_its_usage(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="fast", messages=[{"role": "user", "content": "hi"}]
    )
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 4)


def test_a_stream_reports_its_usage_on_request(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="fast",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 7


@pytest.mark.parametrize("stream", [False, True])
def test_parallel_tool_calls_are_complete(client: openai.OpenAI, stream: bool) -> None:
    ask = {"model": "helper", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
    if stream:
        arguments = {0: "", 1: ""}
        for chunk in client.chat.completions.create(**ask, stream=True):  # type: ignore[call-overload]
            for call in chunk.choices[0].delta.tool_calls or []:
                arguments[call.index] += call.function.arguments or ""
            end = chunk.choices[0].finish_reason
    else:
        choice = client.chat.completions.create(**ask).choices[0]  # type: ignore[call-overload]
        calls = choice.message.tool_calls
        assert [(call.id, call.type) for call in calls] == [
            ("call_1", "function"),
            ("call_2", "function"),
        ]
        assert {call.function.name for call in calls} == {"weather"}
        arguments = {at: call.function.arguments for at, call in enumerate(calls)}
        end = choice.finish_reason
    assert [json.loads(arguments[at])["city"] for at in (0, 1)] == ["Bonn", "Ulm"]
    assert end == "tool_calls"


def test_pictures_reach_the_model(client: openai.OpenAI) -> None:
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    answer = client.chat.completions.create(
        model="picture",
        messages=[{"role": "user", "content": content}],  # type: ignore[misc,list-item]
    )
    assert answer.choices[0].message.content == PICTURE[:22]


def test_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="embed", input=["a", "b"], encoding_format="float")
    assert [entry.embedding for entry in answer.data] == [[0.25, 0.5]] * 2
    assert answer.model == "vectors"


@pytest.mark.parametrize("stream", [False, True])
def test_completions(client: openai.OpenAI, stream: bool) -> None:
    if stream:
        chunks = client.completions.create(model="fast", prompt="hi", stream=True)
        assert "".join(chunk.choices[0].text or "" for chunk in chunks) == "one two three four"
    else:
        answer = client.completions.create(model="fast", prompt="hi")
        assert (answer.object, answer.model) == ("text_completion", "good")
        assert answer.choices[0].text == "one two three four"
        assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_responses(client: openai.OpenAI, stream: bool) -> None:
    if stream:
        events = list(client.responses.create(model="fast", input="hi", stream=True))
        last = events[-1]
        assert last.type == "response.completed"
        answer = last.response
    else:
        answer = client.responses.create(model="fast", input="hi")
    assert answer.output_text == "one two three four"
    assert answer.model == "good"


def test_an_unknown_parameter_is_accepted(client: openai.OpenAI, upstream: Upstream) -> None:
    answer = client.chat.completions.create(
        model="fast",
        messages=[{"role": "user", "content": "hi"}],
        reasoning_effort="none",
        extra_body={"think": False},
    )
    assert answer.choices[0].message.content == "one two three four"
    # It does not think, so it hears nothing of it.
    assert "reasoning_effort" not in upstream.requests_for("good")[-1]

"""Streams cut anywhere, and one answer made of many pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hearth_gateway.assembly import assembly_for
from hearth_gateway.events import EventReader, error_in, has_token

CHAT = "/v1/chat/completions"


def chunk(delta: dict[str, Any], end: str | None = None, index: int = 0, **more: Any) -> Any:
    choice = {"index": index, "delta": delta, "finish_reason": end}
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice | more]}


def assembled(*chunks: Any, path: str = CHAT) -> dict[str, Any]:
    assembly = assembly_for(path)
    for each in chunks:
        assembly.add(each)
    return assembly.answer()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_bytes_may_be_split_anywhere(size: int, line: str) -> None:
    sent = [chunk({"content": "grüß\n\ngott"}), chunk({}, "stop")]
    text = f": comment{line}{line}" + "".join(
        f"event: x{line}data: {json.dumps(each, ensure_ascii=False)}{line}{line}" for each in sent
    )
    data = (text + f"data: [DONE]{line}{line}data: {{").encode()
    events = EventReader()
    got = [e for at in range(0, len(data), size) for e in events.feed(data[at : at + size])]
    assert got == [None, *sent, None]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_a_long_event_is_dropped_and_the_next_one_is_read(size: int, line: str) -> None:
    long = json.dumps({"type": "transcript.text.done", "text": "x" * 5000})
    data = f"data: {long}{line}{line}".encode() * 2 + f'data: {{"a": 1}}{line}{line}'.encode()
    events = EventReader(100)
    got, most = [], 0
    for at in range(0, len(data), size):
        got += list(events.feed(data[at : at + size]))
        most = max(most, len(events._held))
    assert got == [None, None, {"a": 1}]
    assert most <= 100


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (None, None),
        (chunk({"content": "a"}), None),
        ({"error": None, "choices": []}, None),
        ({"type": "transcript.text.delta", "delta": "error"}, None),
        ({"type": "response.completed", "response": {"error": None}}, None),
        # As LiteLLM and llama.cpp write it.
        ({"error": {"message": "no", "code": "x"}}, "no"),
        ({"error": "no"}, "no"),
        # As Hearth's whisper and OpenAI's sockets write it; the last two, OpenAI's Responses.
        ({"type": "error", "error": {"message": "no", "type": "server_error"}}, "no"),
        ({"type": "error", "code": "x", "message": "no", "param": None}, "no"),
        ({"type": "response.failed", "response": {"error": {"message": "no"}}}, "no"),
    ],
)
def test_errors_are_found_in_every_shape(event: Any, message: str | None) -> None:
    found = error_in(event)
    assert (found["message"] if found else None) == message


@pytest.mark.parametrize(
    ("event", "is_token"),
    [
        (None, False),
        ([], False),
        (chunk({"role": "assistant"}), False),
        (chunk({"role": "assistant", "content": ""}), False),
        (chunk({"content": "a"}), True),
        (chunk({"reasoning_content": "hm"}), True),
        (chunk({"tool_calls": [{"index": 0}]}), True),
        (chunk({}, "stop"), True),
        ({"choices": [{"index": 0, "text": "a"}]}, True),
        ({"choices": [{"index": 0, "text": ""}]}, False),
        ({"choices": [], "usage": {}}, False),
        ({"choices": None}, False),
        ({"type": "response.created"}, False),
        ({"type": "response.output_text.delta", "delta": "a"}, True),
    ],
)
def test_only_output_of_the_model_is_a_first_token(event: Any, is_token: bool) -> None:
    assert has_token(event) is is_token


def test_text_is_joined_and_finish_reasons_are_kept() -> None:
    answer = assembled(
        chunk({"role": "assistant", "content": "a"}),
        chunk({"content": None, "reasoning_content": "h"}),
        chunk({"content": "b", "reasoning_content": "m"}),
        chunk({}, "length"),
        {"id": "x", "choices": [], "usage": {"total_tokens": 3}},
    )
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "ab", "reasoning_content": "hm"}
    assert choice["finish_reason"] == "length"
    assert answer["usage"] == {"total_tokens": 3}
    assert answer["object"] == "chat.completion"


def test_choices_and_tool_calls_are_separate() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "type": "function", "function": function}]}

    answer = assembled(
        chunk(call(0, name="f", arguments="{")),
        chunk(call(1, name="g", arguments="[")),
        chunk(call(0, arguments="}")),
        chunk(call(1, arguments="]")),
        chunk({"content": "other"}, "stop", index=1),
        chunk({}, "tool_calls"),
    )
    first, second = answer["choices"]
    functions = [each["function"] for each in first["message"]["tool_calls"]]
    assert functions == [{"name": "f", "arguments": "{}"}, {"name": "g", "arguments": "[]"}]
    assert first["message"]["content"] is None
    assert second["message"]["content"] == "other"


def test_logprobs_are_joined() -> None:
    answer = assembled(
        chunk({"content": "a"}, logprobs={"content": [1]}),
        chunk({"content": "b"}, logprobs=None),
        chunk({"content": "c"}, "stop", logprobs={"content": [2]}),
    )
    assert answer["choices"][0]["logprobs"] == {"content": [1, 2]}


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/responses"])
def test_a_stream_without_an_end_is_not_finished(path: str) -> None:
    assembly = assembly_for(path)
    assert not assembly.finished
    assembly.add(chunk({"content": "a"}))
    assembly.add({"type": "response.created", "response": {"id": "r"}})
    assert not assembly.finished


def test_a_response_is_its_last_event() -> None:
    done = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}
    assert (
        assembled({"type": "response.created", "response": {"id": "r"}}, done, path="/v1/responses")
        == (done["response"])
    )

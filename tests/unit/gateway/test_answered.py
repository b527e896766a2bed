"""The name of the model in a server's answer, and nothing that only looks like it."""

from __future__ import annotations

import json

import pytest

from hearth_gateway.answered import Observation, with_model

TEXT = 'a "model": "forged" in a text'
TOOL = {"name": "look", "parameters": {"default": {"model": "forged"}}}


def event(data: object) -> bytes:
    return b"event: named\r\ndata: " + json.dumps(data).encode() + b"\r\n\r\n"


STREAMS = [
    event({"choices": [{"delta": {"content": TEXT}}], "model": "a"}),
    b": waits\n\n" + event({"type": "ping"}) + event({"model": "a"}) + event({"model": "late"}),
    event({"type": "response.created", "response": {"tools": [TOOL], "model": "a"}}),
    event({"type": "message_start", "message": {"model": "a", "content": []}}),
]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_names_its_model_in_its_first_event_with_one(stream: bytes, size: int) -> None:
    seen = Observation()
    for start in range(0, len(stream), size):
        seen.read(stream[start : start + size], events=True)
    assert seen.model == "a"


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_long_answer_in_json_names_its_model(size: int) -> None:
    whole = json.dumps({"note": TEXT, "data": list(range(5000)), "model": 'a"b', "usage": {}})
    seen = Observation()
    for start in range(0, len(whole), size):
        seen.read(whole.encode()[start : start + size], events=False)
    assert seen.model == 'a"b'


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"model": null}', b'{"model": "\\x"}', b"\xff"])
def test_an_answer_without_a_valid_name_has_none(answer: bytes) -> None:
    for events in (True, False):
        seen = Observation()
        seen.read(answer, events=events)
        assert seen.model is None


def test_an_event_keeps_everything_but_the_name() -> None:
    raw = b'event: e\ndata: {"model": "a", "n": 1}\n\n'
    assert (
        with_model(raw, {"model": "a", "n": 1}, "b") == b'event: e\ndata: {"model":"b","n":1}\n\n'
    )
    assert with_model(b": waits\n\n", None, "b") == b": waits\n\n"

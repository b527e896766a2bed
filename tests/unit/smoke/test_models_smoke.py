"""The smoke tests of models pass for answers as they should be, and fail for those that are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hearth.clients.endpoints import Answer
from hearth.clients.models import READY
from hearth.smoke import test_models as smoke
from hearth.smoke.plugin import Notes, NotMeasured

QWEN, VL = "qwen3.5:4b", "qwen3-vl"
MODELS = {
    QWEN: SimpleNamespace(capabilities=("tools", "thinking"), always_thinks=False),
    VL: SimpleNamespace(capabilities=("thinking",), always_thinks=True),
}
GATEWAY = SimpleNamespace(name="gateway", url="http://gateway", metrics_port=4000)
HOUSE: Any = SimpleNamespace(models=MODELS, offering=lambda _: (GATEWAY,))
FIGURE = 'gen_ai_server_time_to_first_token_seconds_count{{gen_ai_request_model="{}"}} 1.0\n'
OVERVIEW: Any = SimpleNamespace(aliases={"fast": SimpleNamespace(state=READY)})


def alias(*members: str) -> Any:
    more = {"kind": "chat", "capabilities": (), "timeout_s": 5.0, "thinking": "off"}
    return SimpleNamespace(name="fast", members=members, **more)


@dataclass
class Edge:
    """Answers each request with the next of these messages, streamed or whole."""

    messages: list[dict[str, Any]]
    model: str = QWEN
    finish: str = "stop"
    sent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def _headers(self) -> dict[str, str]:
        return {smoke.ANSWERED_BY: self.model}

    def request(self, fqdn: str, path: str, *, send: dict[str, Any], **more: Any) -> Answer:
        self.sent.append(send)
        choice = {"message": self.messages.pop(0), "finish_reason": self.finish}
        body = json.dumps({"model": self.model, "choices": [choice]})
        return Answer(200, self._headers, body.encode())

    @contextmanager
    def stream(
        self, fqdn: str, path: str, within_s: float, key: str, send: dict[str, Any]
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        self.sent.append(send)
        message = self.messages.pop(0)
        pieces = [{name: value} for name, value in message.items()]
        finish = "tool_calls" if "tool_calls" in message else self.finish
        choices: list[dict[str, Any]] = [
            {"delta": piece, "finish_reason": None} for piece in pieces
        ]
        choices.append({"delta": {}, "finish_reason": finish})
        events = [json.dumps({"model": self.model, "choices": [each]}) for each in choices]
        lines = [f"data: {event}\n\n".encode() for event in (*events, "[DONE]")]
        yield httpx.Response(200, headers=self._headers), iter(lines)


def whole(*messages: dict[str, Any], model: str = QWEN) -> list[dict[str, Any]]:
    edge: Any = Edge(list(messages), model)
    smoke.test_an_alias_answers(HOUSE, alias(model), OVERVIEW, "llm.lan", edge, "key")
    sent: list[dict[str, Any]] = edge.sent
    return sent


def quiet(message: dict[str, Any]) -> None:
    edge: Any = Edge([message])
    smoke.test_an_alias_that_should_not_think_does_not(
        HOUSE, alias(QWEN), OVERVIEW, "llm.lan", edge, "key"
    )


def called(*messages: dict[str, Any], model: str = QWEN) -> list[dict[str, Any]]:
    edge: Any = Edge(list(messages), model)
    smoke.test_an_alias_calls_a_tool_and_answers_from_its_result(
        HOUSE, alias(QWEN, VL), OVERVIEW, "llm.lan", edge, "key"
    )
    sent: list[dict[str, Any]] = edge.sent
    return sent


def call(name: str = "get_weather", arguments: str = '{"city": "Paris"}') -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": "one", "function": function}]}


def test_an_answer_without_thought_is_requested() -> None:
    (send,) = whole({"content": "four"})
    assert (send["reasoning_effort"], send["max_tokens"]) == ("none", smoke.TOKENS)
    # A model that thinks all the same needs room for it.
    (send,) = whole({"content": "four", "reasoning": "hm"}, model=VL)
    assert send["max_tokens"] == smoke.THOUGHT_TOKENS


def test_thought_alone_is_reported_as_that() -> None:
    with pytest.raises(AssertionError, match="the answer is empty"):
        whole({"content": ""})
    with pytest.raises(pytest.fail.Exception, match="used all its tokens for reasoning: allow"):
        whole({"content": None, "reasoning_content": "hm"})
    # Of a model that cannot stop thinking it is no fault of the house.
    with pytest.raises(NotMeasured, match="used all its tokens for reasoning"):
        whole({"content": "", "reasoning": "hm"}, model=VL)


def measured(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    """Let the gateway's figures be this page."""
    monkeypatch.setattr(httpx, "get", lambda url, **_: httpx.Response(200, text=page))


def streams(notes: Notes, message: dict[str, Any]) -> dict[str, Any]:
    edge: Any = Edge([message])
    smoke.test_an_alias_streams(HOUSE, alias(QWEN), OVERVIEW, "llm.lan", edge, "key", notes)
    sent: dict[str, Any] = edge.sent[0]
    return sent


def test_a_first_token_is_one_of_a_thought_or_a_call_too(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    measured(monkeypatch, FIGURE.format("fast"))
    for message in ({"reasoning": "hm"}, {"content": "four"}, call()):
        assert "reasoning_effort" not in streams(notes, message)
    assert len(notes.figures) == 3
    with pytest.raises(AssertionError, match="neither text, nor thought"):
        streams(notes, {"role": "assistant"})


@pytest.mark.parametrize("page", ["", FIGURE.format("faster"), "# HELP " + FIGURE.format("fast")])
def test_an_answer_that_the_gateway_did_not_measure_is_found(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    measured(monkeypatch, page)
    monkeypatch.setattr(smoke, "RECORDED_S", 0)
    with pytest.raises(AssertionError, match="the figures of gateway have no fast"):
        streams(Notes(), {"content": "four"})


def test_thinking_that_should_be_off_is_found() -> None:
    quiet({"content": "9.9"})
    with pytest.raises(AssertionError, match=" thinks, although"):
        quiet({"reasoning": "hm", "content": "9.9"})
    with pytest.raises(AssertionError, match="into the answer"):
        quiet({"content": "<think>hm</think>9.9"})


def test_a_tool_is_called_and_its_result_sent_back() -> None:
    first, second = called(call(), {"content": "sunny"})
    assert first["tools"] == second["tools"] == [smoke.TOOL]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][2]["tool_call_id"] == "one"
    assert second["messages"][1]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_wrong_tool_calls_are_found() -> None:
    with pytest.raises(AssertionError, match="it calls 'else'"):
        called(call("else"))
    for arguments in ("{", "[]"):
        with pytest.raises(pytest.fail.Exception, match="are not a JSON object"):
            called(call(arguments=arguments))
    with pytest.raises(AssertionError, match="the answer is empty"):
        called(call(), {"content": " "})
    with pytest.raises(AssertionError, match="qwen3-vl got the tools"):
        called(call(), model=VL)
    with pytest.raises(NotMeasured, match="without calling the tool"):
        called({"content": "I cannot look."})


@pytest.mark.parametrize(
    ("shown", "wrong", "remarks"),
    [
        (["completion", "tools", "thinking"], "", 0),
        (["completion", "tools"], "qwen3.5:4b: no thinking: take it out", 0),
        (["completion", "tools", "thinking", "vision", "insert"], "", 1),
    ],
)
def test_capabilities_are_compared(
    shown: list[str], wrong: str, remarks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SimpleNamespace(name=QWEN, id=QWEN, pulled=True, kind="chat", service="ollama")
    model.capabilities = ("tools", "thinking")
    house: Any = SimpleNamespace(models={QWEN: model})
    overview: Any = SimpleNamespace(models={QWEN: SimpleNamespace(state=READY)})

    def server_api(*_: Any) -> Any:
        async def answer(path: str, body: Any) -> dict[str, Any]:
            assert (path, body) == ("/api/tags", None)
            others = {"name": "llama3.1:latest", "capabilities": ["vision"]}
            return {"models": [others, {"name": QWEN, "capabilities": shown}]}

        return answer

    monkeypatch.setattr(smoke, "server_api", server_api)
    notes = Notes()
    if wrong:
        with pytest.raises(AssertionError, match=wrong):
            smoke.test_models_can_do_what_the_inventory_says(house, overview, notes)
    else:
        smoke.test_models_can_do_what_the_inventory_says(house, overview, notes)
    assert len(notes.remarks) == remarks

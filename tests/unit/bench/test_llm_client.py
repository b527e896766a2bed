"""One streamed answer, measured on a clock that only the fake server moves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import Reply, json_caller, least_thought, measurer, thought_alone

GATEWAY = Endpoint("gateway", "https://llm.lan/", "fast", key="sesame")


@dataclass
class Upstream(httpx.AsyncBaseTransport):
    """Sends its lines, each after a delay in seconds on its own clock."""

    lines: Sequence[tuple[float, str]]
    status: int = 200
    now: float = 50.0
    hang: bool = False
    requests: list[httpx.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(self.status, content=self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        for delay_s, line in self.lines:
            self.now += delay_s
            yield line.encode() + b"\n"
        if self.hang:
            await asyncio.Event().wait()


def sse(*events: dict[str, Any] | str) -> list[str]:
    return [f"data: {e if isinstance(e, str) else json.dumps(e)}" for e in events]


def delta(model: str = "real", **text: str) -> dict[str, Any]:
    return {"model": model, "choices": [{"delta": text}]}


async def measure(server: Upstream, endpoint: Endpoint) -> Any:
    async with httpx.AsyncClient(transport=server) as client:
        return await measurer(client, endpoint, lambda: server.now)("Hi", 8)


async def test_a_stream() -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 5}}
    lines = sse(
        delta(role="assistant"), delta(content="a"), delta(content="b"), delta(), usage, "[DONE]"
    )
    server = Upstream(list(zip([0.1, 0.2, 0.5, 0, 0, 1], lines, strict=True)))
    sample = await measure(server, GATEWAY)
    assert sample.first_ms == pytest.approx(300)
    assert sample.total_ms == pytest.approx(1800)
    assert (sample.tokens, sample.answered_by, sample.error) == (5, "real", "")
    assert sample.tokens_per_s == pytest.approx(4 / 0.5)
    (request,) = server.requests
    assert str(request.url) == "https://llm.lan/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sesame"
    assert "sesame" not in repr(GATEWAY)
    assert json.loads(request.content)["max_tokens"] == 8
    assert json.loads(request.content)["model"] == "fast"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_tokens_count(field: str) -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 3}}
    lines = sse(delta(**{field: "hm"}), delta(content="a"), delta(content=""), usage, "[DONE]")
    server = Upstream(list(zip([0.2, 0.4, 0.1, 0, 0], lines, strict=True)))
    sample = await measure(server, GATEWAY)
    assert sample.first_ms == pytest.approx(200)
    assert sample.answer_ms == pytest.approx(600)
    assert sample.tokens_per_s == pytest.approx(2 / 0.4)
    assert not sample.thought_alone


async def test_an_answer_in_thought_alone_is_no_error_and_is_reported_as_that() -> None:
    ended = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    lines = sse(delta(reasoning="hm"), delta(reasoning="so"), ended, "[DONE]")
    sample = await measure(Upstream([(0.1, line) for line in lines]), GATEWAY)
    assert (sample.first_ms, sample.answer_ms) == (pytest.approx(100), None)
    assert (sample.error, sample.thought_alone) == ("", True)
    assert "reasoning_effort" in thought_alone("fast")


def test_a_reply_is_put_together_with_its_tool_calls() -> None:
    reply = Reply()
    for piece in (
        {"reasoning_content": "hm, ", "reasoning": "hm, "},
        {"reasoning": "well"},
        {"content": "I look. "},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "w", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "t", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
    ):
        reply.add({"model": "real", "choices": [{"delta": piece, "finish_reason": None}]})
    reply.add({"model": "real", "choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    reply.add({"model": "real", "choices": [], "usage": {}})
    assert (reply.thought, reply.text, reply.finish) == ("hm, well", "I look. ", "tool_calls")
    assert [(call["id"], call["function"]) for call in reply.calls] == [
        ("a", {"name": "w", "arguments": '{"x": 1}'}),
        ("b", {"name": "t", "arguments": "{}"}),
    ]
    assert (reply.model, reply.models) == ("real", ["real"])


def test_only_a_thought_that_can_be_turned_off_is_turned_off() -> None:
    for capabilities, always, fields in (
        (("tools",), False, {}),
        (("thinking",), False, {"reasoning_effort": "none"}),
        (("thinking",), True, {}),
    ):
        model: Any = SimpleNamespace(capabilities=capabilities, always_thinks=always)
        assert least_thought(model) == fields


async def test_a_whole_answer_in_one_piece_has_no_speed() -> None:
    lines = sse(delta(content="all of it"), "[DONE]")
    sample = await measure(Upstream([(1, line) for line in lines]), GATEWAY)
    assert (sample.first_ms, sample.tokens_per_s, sample.error) == (1000, None, "")


@pytest.mark.parametrize(
    ("lines", "status", "error"),
    [
        (sse(delta(content="a")), 200, "the stream ended early"),
        (sse("[DONE]"), 200, "an answer without a single token"),
        (sse({"error": {"message": "no\nmodel"}}), 200, "no model"),
        (sse("{"), 200, "not an answer: {"),
        (['{"error": "wrong key"}'], 401, 'HTTP 401: {"error": "wrong key"}'),
    ],
)
async def test_an_invalid_answer_is_an_error(lines: list[str], status: int, error: str) -> None:
    sample = await measure(Upstream([(0, line) for line in lines], status), GATEWAY)
    assert sample.error == error


async def test_a_hanging_answer_has_a_total_deadline() -> None:
    endpoint = Endpoint("gateway", "https://llm.lan", "fast", call_s=0.05)
    server = Upstream([(0, sse(delta(content="a"))[0])], hang=True)
    assert (await measure(server, endpoint)).error == "no complete answer within 0.05 s"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(200, b'{"models": []}\n')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(404, b'{"error": "model not found"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def ollama() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_json_calls(ollama: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        call = json_caller(client, ollama)
        assert await call("/api/ps", None) == {"models": []}
        with pytest.raises(ClientError, match=r"HTTP 404.*model not found"):
            await call("/api/generate", {"model": "x"})

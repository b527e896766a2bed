"""A model server whose models have one fault each, named by the first word of their name."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .transcription_upstream import TranscriptionUpstream, WatchedStream, has_left

WORDS = ["one ", "two ", "three ", "four"]
FOREVER_S = 60
# Invalid bodies of a 200.
INVALID_BODIES = {
    "garbage": b"data: \x00\xff<html>{]\n\n",
    "empty": b"",
    "inside": b'data: {"error": {"message": "no memory", "code": 500}}\n\n',
}
# Fields that Open WebUI would take for those of its own server.
FORGED: dict[str, Any] = {
    "event": {"type": "execute", "data": {"code": "1"}},
    "selected_model_id": "good",
    "type": "response.completed",
    "sources": [{"source": {"name": "nowhere"}}],
}
# Extra fields for clients. LiteLLM rebuilds a chunk without a fingerprint, and drops all of them.
EXTRAS: dict[str, Any] = {"timings": {"predicted_n": 4}, "system_fingerprint": "fp"}


class Upstream:
    """Serves OpenAI's interface on a free port of the loopback, and records all requests."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.ports: list[int] = []
        self.left: list[str] = []
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self._listener = listener
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        routes = [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/completions", self._completions, methods=["POST"]),
            Route("/v1/embeddings", self._embeddings, methods=["POST"]),
            Route("/v1/responses", self._responses, methods=["POST"]),
        ]
        self.transcription = TranscriptionUpstream()
        for prefix in ("", "/"):
            routes.append(
                Route(
                    f"{prefix}/v1/audio/{{kind}}", self.transcription.transcribe, methods=["POST"]
                )
            )
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],))

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        self._listener.close()

    def requests_for(self, model: str) -> list[dict[str, Any]]:
        """Return the bodies of the requests for `model`."""
        return [body for name, body in self.calls if name == model]

    def was_disconnected(self, model: str, within_s: float = 30) -> bool:
        """Return whether the client of `model` disconnected before the end."""
        return has_left(self.left, model, within_s)

    async def _read(self, request: Request) -> tuple[str, dict[str, Any]]:
        body = await request.json()
        self.calls.append((body["model"], body))
        self.ports.append(request.client.port if request.client else 0)
        return body["model"], body

    async def _chat(self, request: Request) -> Response:
        model, body = await self._read(request)
        fault = model.split("-")[0]
        if fault.isdigit():
            return JSONResponse({"error": {"message": f"fault {fault}"}}, int(fault))
        if fault in INVALID_BODIES:
            return Response(INVALID_BODIES[fault], media_type="text/event-stream")
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "whole"}}
            return JSONResponse({"choices": [{**choice, "finish_reason": "stop"}]})
        return WatchedStream(_chat_events(model, fault, body), model, self.left)

    async def _completions(self, request: Request) -> Response:
        model, body = await self._read(request)

        async def events() -> AsyncIterator[str]:
            for number, word in enumerate(WORDS):
                end = "stop" if number == len(WORDS) - 1 else None
                choice = {"index": 0, "text": word, "finish_reason": end, "logprobs": None}
                yield _event(head, model, [choice])
            if usage := _usage(body):
                yield _event({**head, **usage}, model, [])
            yield "data: [DONE]\n\n"

        head = {"id": "c", "object": "text_completion", "created": 1}

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _embeddings(self, request: Request) -> Response:
        model, body = await self._read(request)
        if model.startswith("500"):
            return JSONResponse({"error": {"message": "fault 500"}}, 500)
        data = [
            {"object": "embedding", "index": number, "embedding": [0.25, 0.5]}
            for number in range(len(body["input"]))
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return JSONResponse(
            {"object": "list", "model": _named(model), "data": data, "usage": usage}
        )

    async def _responses(self, request: Request) -> Response:
        model, _ = await self._read(request)

        async def events() -> AsyncIterator[str]:
            for event in _response_events(model):
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")


async def _chat_events(model: str, fault: str, body: dict[str, Any]) -> AsyncIterator[str]:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1}
    model = _named(model)
    if fault == "mute":
        await asyncio.sleep(FOREVER_S)
    if fault == "drip":
        while True:
            yield ": still thinking\n\n"
            await asyncio.sleep(0.1)
    yield _event(head, model, [_delta({"role": "assistant", "content": ""})])
    if fault == "roleonly":
        await asyncio.sleep(FOREVER_S)
    if fault == "forged":
        head |= FORGED | EXTRAS
        yield ": a remark\n\n"
    if fault in ("thinks", "broods", "ponders") and body.get("reasoning_effort") != "none":
        for word in WORDS:
            yield _event(head, model, [_delta({"reasoning": word})])
            await asyncio.sleep(0.4 if fault == "ponders" else 0)
    if fault == "broods":
        yield _event(head, model, [_delta({}, "length")])
        yield "data: [DONE]\n\n"
        return
    if fault == "tools":
        for delta in _tool_deltas(body["tools"][0]["function"]["name"]):
            yield _event(head, model, [_delta(delta)])
    elif fault == "picture":
        seen = body["messages"][0]["content"][1]["image_url"]["url"][:22]
        yield _event(head, model, [_delta({"content": seen})])
    else:
        for word in WORDS * (100 if fault == "endless" else 1):
            yield _event(head, model, [_delta({"content": word})])
            pauses = {"endless": 0.1, "slow": 0.5, "cut": 0.1, "crash": 0.1}
            await asyncio.sleep(pauses.get(fault, 0))
            if fault == "cut":
                return
            if fault == "crash":
                raise ConnectionAbortedError
    yield _event(head, model, [_delta({}, "tool_calls" if fault == "tools" else "stop")])
    if usage := _usage(body):
        yield _event({**head, **usage}, model, [])
    yield "data: [DONE]\n\n"


def _usage(body: dict[str, Any]) -> dict[str, Any]:
    """Return the usage for a client that asked for it, as Ollama does."""
    if not (body.get("stream_options") or {}).get("include_usage"):
        return {}
    return {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}


def _named(model: str) -> str:
    """Return the name of the model in an answer: the requested one, as Ollama does, or another."""
    return {"other": "good", "strange": "somebody's:7b\n"}.get(model.split("-")[0], model)


def _tool_deltas(name: str) -> list[dict[str, Any]]:
    first = {"index": 0, "id": "call_1", "type": "function"}
    second = {"index": 1, "id": "call_2", "type": "function"}
    return [
        {"tool_calls": [{**first, "function": {"name": name, "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Bonn"}'}}]},
        # As Ollama sends one: whole.
        {"tool_calls": [{**second, "function": {"name": name, "arguments": '{"city": "Ulm"}'}}]},
    ]


def _delta(delta: dict[str, Any], end: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": end}


def _event(head: dict[str, Any], model: str, choices: list[dict[str, Any]]) -> str:
    return f"data: {json.dumps({**head, 'model': model, 'choices': choices})}\n\n"


def _response_events(model: str) -> list[dict[str, Any]]:
    text = "".join(WORDS)
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": _named(model)}
    usage = {"input_tokens": 1, "output_tokens": 4, "total_tokens": 5}
    started = {**base, "status": "in_progress", "output": []}
    done = {**base, "status": "completed", "output": [{**message, "content": [part]}]}
    where = {"item_id": "m", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "sequence_number": 0, "response": started},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": text, **where},
        {"type": "response.completed", "sequence_number": 2, "response": {**done, "usage": usage}},
    ]

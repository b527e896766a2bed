"""The server of the scripted model: OpenAI's chat completions, streamed or not, over plain HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.mock_upstreams.faults import CutError
from tests.mock_upstreams.scripted.scripts import SCRIPTS, other
from tests.mock_upstreams.scripted.talk import Talk, Turn, turn_of

MODEL = "scripted:agents"
REMEMBERED = 500
# A piece of an answer; a tool call's arguments arrive in two of any size.
PIECE = 24


@dataclass(slots=True)
class Memory:
    """What was asked, newest last: bodies as they arrived."""

    bodies: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    is_down: bool = False
    """Whether it answers 503, so that the next member of an alias is asked."""


def application(memory: Memory | None = None) -> Starlette:
    """Return the server; `GET /requests` lists what was asked, `DELETE /requests` forgets it.

    After `PUT /down` it answers 503, until `DELETE /down`.
    """
    kept = memory or Memory()

    async def complete(request: Request) -> Response:
        body = await request.json()
        if kept.is_down:
            return JSONResponse({"error": {"message": "down on purpose"}}, 503)
        kept.bodies.append(body)
        talk = Talk(body.get("messages") or [], _tools(body))
        turn = turn_of(talk, SCRIPTS, other)
        if body.get("stream"):
            return StreamingResponse(_stream(turn, body), media_type="text/event-stream")
        await asyncio.sleep(turn.wait_s)
        if turn.cut:
            return JSONResponse({"error": {"message": "cut on purpose"}}, 502)
        return JSONResponse(_whole(turn, body))

    async def requests(request: Request) -> Response:
        answer = JSONResponse(list(kept.bodies))
        if request.method == "DELETE":
            kept.bodies.clear()
        return answer

    async def down(request: Request) -> Response:
        kept.is_down = request.method == "PUT"
        return JSONResponse({"down": kept.is_down})

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def tags(request: Request) -> Response:
        # As Ollama lists its models: `hearth models` asks external servers so.
        digest = hashlib.sha256(MODEL.encode()).hexdigest()
        return JSONResponse({"models": [{"name": MODEL, "size": 1000, "digest": digest}]})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "kind": "scripted model, a stand-in"})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/models", models),
            Route("/api/tags", tags),
            Route("/health", health),
            Route("/requests", requests, methods=["GET", "DELETE"]),
            Route("/down", down, methods=["PUT", "DELETE"]),
        ]
    )


def _tools(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    functions = (tool.get("function") or {} for tool in body.get("tools") or ())
    return {str(f["name"]): f.get("parameters") or {} for f in functions if f.get("name")}


def _calls(turn: Turn, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    # A call's ID is the same when a request is sent again, and another one in the next turn.
    turns = sum(message.get("role") == "assistant" for message in body.get("messages") or ())
    return [
        {
            "id": f"call_{turns}_{number}",
            "type": "function",
            "function": {"name": call.tool, "arguments": call.sent},
        }
        for number, call in enumerate(turn.calls)
    ]


def _usage(turn: Turn, body: Mapping[str, Any]) -> dict[str, int]:
    asked = len(json.dumps(body.get("messages") or [])) // 4
    answered = (len(turn.text) * turn.times + sum(len(call.sent) for call in turn.calls)) // 4 + 1
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }


def _whole(turn: Turn, body: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text * turn.times or None}
    if turn.thought:
        message["reasoning_content"] = turn.thought
    if turn.calls:
        message["tool_calls"] = _calls(turn, body)
    choice = {"index": 0, "message": message, "finish_reason": _finish(turn)}
    return {**_head("chat.completion"), "choices": [choice], "usage": _usage(turn, body)}


def _head(kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": int(time.time()), "model": MODEL}


def _finish(turn: Turn) -> str:
    return "tool_calls" if turn.calls else "stop"


async def _stream(turn: Turn, body: Mapping[str, Any]) -> AsyncIterator[bytes]:
    await asyncio.sleep(turn.wait_s)
    for number, delta in enumerate(_deltas(turn, body)):
        yield _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        await asyncio.sleep(turn.pace_s)
        if turn.cut and number:
            raise CutError("cut on purpose")
    yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(turn)}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({"choices": [], "usage": _usage(turn, body)})
    yield b"data: [DONE]\n\n"


def _event(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps({**_head('chat.completion.chunk'), **content})}\n\n".encode()


def _deltas(turn: Turn, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if turn.thought:
        yield {"reasoning_content": turn.thought}
    if turn.times > 1:
        yield from ({"content": turn.text} for _ in range(turn.times))
    else:
        pieces = range(0, len(turn.text), PIECE)
        yield from ({"content": turn.text[at : at + PIECE]} for at in pieces)
    for index, call in enumerate(_calls(turn, body)):
        text = call["function"]["arguments"]
        function = {"name": call["function"]["name"], "arguments": text[: len(text) // 2]}
        yield {"tool_calls": [{**call, "index": index, "function": function}]}
        rest = {"arguments": text[len(text) // 2 :]}
        yield {"tool_calls": [{"index": index, "function": rest}]}

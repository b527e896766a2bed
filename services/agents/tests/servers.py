"""A scripted provider and a fake broker: real HTTP on loopback, in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

Script = Callable[[dict[str, Any]], Any]
"""Takes a request and returns what the model answers: a text, a list of calls, or a Response."""


@dataclass(frozen=True)
class Call:
    """A tool call in a model's answer; `arguments` may be a text that is no JSON."""

    name: str
    arguments: dict[str, Any] | str
    id: str = "call_1"

    @property
    def raw(self) -> str:
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments)


@dataclass
class Provider:
    """An OpenAI-compatible server whose models follow a script."""

    script: Script
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    usage: tuple[int, int] | None = (10, 5)
    member: str = "qwen3.5"

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self._chat, methods=["POST"])])

    def of(self, model: str) -> list[dict[str, Any]]:
        """The requests for one alias."""
        return [one for one in self.requests if one["model"] == model]

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers["authorization"])
        said = self.script(body)
        if asyncio.iscoroutine(said):
            watch = asyncio.ensure_future(said)
            while not watch.done():
                await asyncio.wait({watch}, timeout=0.05)
                if await request.is_disconnected():
                    self.gone.append(body["model"])
                    watch.cancel()
                    return Response()
            said = watch.result()
        if isinstance(said, Response):
            return said
        headers = {"x-hearth-model": self.member}
        if body.get("stream"):
            options = body.get("stream_options") or {}
            events = self._stream(said, is_counted=options.get("include_usage") is True)
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        return JSONResponse(self._whole(said), headers=headers)

    def _whole(self, said: Any) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(said, str):
            message["content"] = said
        else:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.raw}}
                for c in said
            ]
        choice = {"index": 0, "message": message, "finish_reason": _finish(said)}
        return {**_base("chat.completion"), "choices": [choice], "usage": self._usage()}

    async def _stream(self, said: Any, is_counted: bool) -> AsyncIterator[bytes]:
        if isinstance(said, str):
            for index, word in enumerate(said.split(" ")):
                yield _chunk({"content": f" {word}" if index else word})
        else:
            for index, c in enumerate(said):
                head = {"index": index, "id": c.id, "type": "function"}
                yield _chunk(
                    {"tool_calls": [{**head, "function": {"name": c.name, "arguments": ""}}]}
                )
                for part in (c.raw[:7], c.raw[7:]):
                    piece = {"index": index, "function": {"arguments": part}}
                    yield _chunk({"tool_calls": [piece]})
        yield _chunk({}, _finish(said))
        if is_counted:
            yield _event({**_base("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

    def _usage(self) -> dict[str, int] | None:
        if self.usage is None:
            return None
        read, written = self.usage
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _finish(said: Any) -> str:
    return "stop" if isinstance(said, str) else "tool_calls"


def _base(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "scripted"}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({**_base("chat.completion.chunk"), "choices": [choice]})


def _event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


VERBS: dict[str, dict[str, Any]] = {
    "service_status": {"service": {"type": "string"}},
    "web_fetch": {"url": {"type": "string"}},
    "run_code": {"language": {"type": "string"}, "code": {"type": "string"}},
    "restart": {"service": {"type": "string"}},
    "approval_status": {"id": {"type": "string"}},
}
CHANGES = {"restart"}


@dataclass
class FakeBroker:
    """The broker's interface over HTTP; a test sets what each verb answers."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    proposed: int = 0
    states: dict[str, str] = field(default_factory=dict)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/openapi.json", self._describe),
                Route("/v1/verbs/{name}", self._call, methods=["POST"]),
                Route("/v1/reads", self._reads, methods=["POST"]),
            ]
        )

    async def _reads(self, request: Request) -> Response:
        self.calls.append(("(reads)", await request.json(), dict(request.headers)))
        answer: Response = self.answers.get("(reads)", JSONResponse({}))
        return answer

    def of(self, verb: str) -> list[dict[str, Any]]:
        """The arguments of one verb's calls."""
        return [arguments for name, arguments, _ in self.calls if name == verb]

    async def _describe(self, _: Request) -> Response:
        paths = {}
        for name in VERBS:
            reference = {"$ref": f"#/components/schemas/{name}"}
            operation: dict[str, Any] = {
                "operationId": name,
                "summary": f"Verb {name}",
                "requestBody": {"content": {"application/json": {"schema": reference}}},
            }
            if name in CHANGES:
                operation["tags"] = ["change"]
            paths[f"/v1/verbs/{name}"] = {"post": operation}
        schemas = {
            name: {"type": "object", "properties": fields, "required": list(fields)}
            for name, fields in VERBS.items()
        }
        return JSONResponse(
            {"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas}}
        )

    async def _call(self, request: Request) -> Response:
        name = request.path_params["name"]
        arguments = await request.json()
        self.calls.append((name, arguments, dict(request.headers)))
        answer = self.answers.get(name, self._default)
        if callable(answer) and not isinstance(answer, Response):
            answer = answer(name, arguments)
        if asyncio.iscoroutine(answer):
            watch = asyncio.ensure_future(answer)
            while not watch.done():
                await asyncio.wait({watch}, timeout=0.05)
                if await request.is_disconnected():
                    self.gone.append(name)
                    watch.cancel()
                    return Response()
            answer = watch.result()
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, str):
            answer = {"text": answer, "data": None, "origin": "house"}
        return JSONResponse(answer)

    def _default(self, name: str, arguments: dict[str, Any]) -> Any:
        if name == "approval_status":
            state = self.states.get(arguments["id"], "void")
            return {"text": f"it is {state}", "data": {"state": state}, "origin": "house"}
        if name in CHANGES:
            self.proposed += 1
            approval = f"A{self.proposed}"
            self.states[approval] = "pending"
            data = {
                "approval": approval,
                "page": f"https://home.lan/approvals/{approval}",
                "expires_in_s": 900,
                "summary": f"{name} {arguments}",
            }
            return {"text": "a person must approve this", "data": data, "origin": "house"}
        return f"{name} is fine"


@asynccontextmanager
async def serving(app: ASGIApp, certificate: Path | None = None) -> AsyncIterator[str]:
    """Serve an application on loopback; return its address.

    With a certificate for localhost, and its key in the same file, that is an HTTPS address.
    """
    config = uvicorn.Config(
        app,
        ssl_certfile=certificate,
        host="127.0.0.1",
        port=0,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        http="h11",
        ws="none",
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve(None))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"https://localhost:{port}" if certificate else f"http://127.0.0.1:{port}"
    finally:
        # As when a process is killed: what is open breaks off.
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        server.should_exit = True
        await task

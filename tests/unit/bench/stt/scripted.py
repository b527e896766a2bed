"""A scripted listening server on the loopback: each path is a server with a habit of its own."""

from __future__ import annotations

import json
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

RATE, BYTES = 16_000, 2
TEXT = "put the kettle on"
LOUD = 1000
IDLE_BYTES = 300 * 2**20


@dataclass
class Scripted:
    """What the scripted server was asked, and where it is."""

    url: str = ""
    forms: list[dict[str, str]] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    starts: list[dict[str, Any]] = field(default_factory=list)
    orders: list[tuple[str, int]] = field(default_factory=list)
    """What was ordered at the socket, and how many bytes of sound had come until then."""
    open: int = 0
    most_open: int = 0
    memory_bytes: int = IDLE_BYTES
    texts: list[str] = field(default_factory=list)
    """What is written of the next files; afterwards always the same."""

    def at(self, habit: str) -> str:
        return f"{self.url}/{habit}"


@dataclass
class Stage:
    """Holds the script that is played to the current client."""

    script: Scripted = field(default_factory=Scripted)


@dataclass
class Ear:
    """Hears loud and quiet, as a server does, in the time of the sound alone."""

    tell: Callable[[dict[str, Any]], Awaitable[None]]
    habit: str
    ends_s: float
    taken: int = 0
    loud_s: float | None = None
    utterance: int = 0
    partials: int = 0

    @property
    def at_s(self) -> float:
        return self.taken / BYTES / RATE

    async def hear(self, sound: bytes) -> None:
        self.taken += len(sound)
        loud = any(abs(sample) > LOUD for sample in array("h", sound))
        if loud and self.loud_s is None:
            self.utterance += 1
            await self.tell({"type": "speech_started", "at_s": self.at_s})
        if loud:
            self.loud_s = self.at_s
            await self.tell({"type": "partial", "text": "put", "stable": ""})
            if self.habit == "cutting" and self.utterance == 1 and self.at_s > 0.06:
                await self.tell({"type": "final", "text": "put"})
                self.utterance += 1
        elif self.loud_s is not None and self.at_s - self.loud_s >= self.ends_s:
            await self.end()

    async def end(self) -> None:
        if self.loud_s is None:
            return
        ended = {"type": "speech_ended", "at_s": self.loud_s}
        self.loud_s = None
        await self.tell(ended)
        if self.habit != "mute":
            await self.tell({"type": "final", "text": TEXT, "latency_ms": 1.0})


def app(stage: Stage) -> Starlette:
    async def talk(socket: WebSocket) -> None:
        habit, script = socket.path_params["habit"], stage.script
        if habit in ("full", "deaf"):
            code = 429 if habit == "full" else 404
            await socket.send_denial_response(JSONResponse({"error": "no"}, status_code=code))
            return
        await socket.accept()
        script.headers.append(dict(socket.headers))
        script.open += 1
        script.most_open = max(script.open, script.most_open)
        try:
            await _talk(socket, script, habit)
        except WebSocketDisconnect:
            pass
        finally:
            script.open -= 1

    async def write(request: Request) -> Response:
        async with request.form() as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            file = form["file"]
            assert not isinstance(file, str)
            stage.script.files.append(await file.read())
        stage.script.forms.append(fields)
        habit = request.path_params["habit"]
        if habit == "refusing":
            return JSONResponse({"error": {"message": "no such\nmodel"}}, status_code=404)
        if habit == "lying":
            return JSONResponse(["this is no text"])
        texts = stage.script.texts
        return JSONResponse({"text": texts.pop(0) if texts else TEXT})

    async def health(request: Request) -> Response:
        if request.path_params["habit"] == "ill":
            return JSONResponse({"status": "starting"}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def status(request: Request) -> Response:
        if request.path_params["habit"] == "deaf":
            return JSONResponse({"detail": "Not Found"}, status_code=404)
        body = {"model": "small", "device": "cpu", "compute_type": "int8", "threads": 2}
        more = {"choice_reason": "it is the only one", "draft": "tiny.en", "active": 0}
        return JSONResponse(body | more | {"memory_bytes": stage.script.memory_bytes})

    base = "/{habit}/v1/audio/transcriptions"
    return Starlette(
        routes=[
            Route(base, write, methods=["POST"]),
            WebSocketRoute(f"{base}/stream", talk),
            Route("/{habit}/health", health),
            Route("/{habit}/status", status),
        ]
    )


async def _talk(socket: WebSocket, script: Scripted, habit: str) -> None:
    async def tell(event: dict[str, Any]) -> None:
        about = {} if event["type"] in ("ready", "done") else {"utterance": ear.utterance}
        await socket.send_text(json.dumps(event | about))

    ear = Ear(tell, habit, 0.5)
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if message.get("bytes"):
            await ear.hear(message["bytes"])
            if habit == "hanging-up" and ear.utterance:
                await socket.close(1011)
                return
            continue
        order = json.loads(message["text"])
        script.orders.append((order["type"], ear.taken))
        if order["type"] == "start":
            script.starts.append(order)
            ear.ends_s = order["end_of_speech_ms"] / 1000
            if habit == "erring":
                await tell({"type": "error", "error": {"message": "no\nmodel"}})
                return
            await tell({"type": "ready", "sample_rate": RATE, "model": "small"})
        if order["type"] in ("flush", "end"):
            await ear.end()
        if order["type"] == "end":
            await tell({"type": "done"})
            await socket.close()
            return

"""A scripted speech server on the loopback: each path is a server with a habit of its own."""

from __future__ import annotations

import asyncio
import base64
import json
from array import array
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

PIECE_S = 0.04
PIECES = 4
SOUND = array("h", [9000, -9000] * 3600).tobytes()  # 0.3 s
FIRST_PIECE = "Anna opened"
SILENCE = bytes(len(SOUND))
# More than one read takes, and no pause of a busy machine is as long.
LONG_S = 3.0
LONG_SOUND = SOUND * 10
IDLE_BYTES, SPEAKING_BYTES = 700 * 2**20, 200 * 2**20


@dataclass
class Scripted:
    """What the scripted server was asked, and where it is."""

    url: str = ""
    piece_s: float = PIECE_S
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    spoken: set[str] = field(default_factory=set)
    remembered: int = 0
    active: int = 0
    most_active: int = 0

    def at(self, habit: str) -> str:
        return f"{self.url}/{habit}"

    @property
    def memory_bytes(self) -> int:
        """As a server's that gives back what speaking takes."""
        return IDLE_BYTES + self.active * SPEAKING_BYTES


@dataclass
class Stage:
    """Holds the script that is played to the current client."""

    script: Scripted = field(default_factory=Scripted)


async def _steady(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    """Speak piece by piece; the beginning of what was spoken before is remembered."""
    for number in range(PIECES):
        known = number == 0 and body["input"] in script.spoken
        script.remembered += known
        await asyncio.sleep(0 if known else script.piece_s)
        yield LONG_SOUND
    script.spoken.add(body["input"])


async def _buffering(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    await asyncio.sleep(PIECES * script.piece_s)
    yield SOUND * PIECES


async def _filling(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    yield SILENCE
    await asyncio.sleep(PIECES * script.piece_s)
    yield SOUND * PIECES


async def _stalling(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    yield SOUND[:480]  # 10 ms
    await asyncio.sleep(0.01 + 0.12)
    yield SOUND


async def _dripping(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    for _ in range(200):
        yield SOUND[:20]
        await asyncio.sleep(0.05)


async def _endless(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    while True:
        yield SOUND * 20
        await asyncio.sleep(0.001)


async def _cutting(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    yield SOUND
    await asyncio.sleep(script.piece_s)
    raise ConnectionResetError("cut on purpose")


async def _silent(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    yield SILENCE


async def _holding(script: Scripted, body: dict[str, Any]) -> AsyncIterator[bytes]:
    await asyncio.sleep(0.13)
    yield SOUND * PIECES


HABITS = {
    "holding": _holding,
    "steady": _steady,
    "buffering": _buffering,
    "filling": _filling,
    "stalling": _stalling,
    "dripping": _dripping,
    "endless": _endless,
    "cutting": _cutting,
    "silent": _silent,
}


def _events() -> Iterator[bytes]:
    sound = base64.b64encode(SOUND).decode()
    for text in (f"{FIRST_PIECE} ", None, "the door."):
        words = {"text": text} if text else {}
        event = {"type": "speech.audio.delta", "audio": sound, **words}
        yield f"data: {json.dumps(event)}\n\n".encode()


def app(stage: Stage) -> Starlette:
    async def speech(request: Request) -> Response:
        body, script = await request.json(), stage.script
        habit = request.path_params["habit"]
        script.bodies.append(body)
        script.headers.append(dict(request.headers))
        if habit == "refusing":
            return JSONResponse({"error": {"message": "no such\nvoice"}}, status_code=400)
        if habit == "lying":
            return JSONResponse({"text": "this is no sound"})
        if body.get("stream_format") == "sse" and habit == "steady":
            return StreamingResponse(_events(), media_type="text/event-stream")

        held = {"x-hearth-held-ms": "130"} if habit == "holding" else {}

        async def counted() -> AsyncIterator[bytes]:
            script.active += 1
            script.most_active = max(script.active, script.most_active)
            try:
                async for part in HABITS[habit](script, body):
                    yield part
            finally:
                script.active -= 1

        return StreamingResponse(counted(), media_type="audio/pcm", headers=held)

    async def health(request: Request) -> Response:
        if request.path_params["habit"] == "ill":
            return JSONResponse({"status": "starting"}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def status(request: Request) -> Response:
        if request.path_params["habit"] != "steady":
            return JSONResponse({"detail": "Not Found"}, status_code=404)
        script = stage.script
        body: dict[str, Any] = {"engine": "onnx", "provider": "CPUExecutionProvider"}
        body |= {"model": "m.onnx", "model_sha256": "ab", "threads": 2, "waiting": 0}
        return JSONResponse(body | {"memory_bytes": script.memory_bytes, "active": script.active})

    return Starlette(
        routes=[
            Route("/{habit}/v1/audio/speech", speech, methods=["POST"]),
            Route("/{habit}/health", health),
            Route("/{habit}/status", status),
        ]
    )

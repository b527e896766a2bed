"""The transcription endpoints of the faulty model server: one fault per model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

SUBTITLES = "1\n00:00:00,000 --> 00:00:01,000\none two\n\n"
FOREVER_S = 60
# Invalid bodies of a 200; the last one is also an event of a stream.
INVALID_BODIES = {
    "garbage": b"\x00\xff<html>{]",
    "empty": b"",
    "inside": b'{"error": {"message": "the card is gone"}}',
}


@dataclass(frozen=True, slots=True)
class Recording:
    """One request as it arrived: its endpoint, its fields, and the file's digest and size."""

    kind: str
    fields: dict[str, Any]
    sha256: str
    size: int
    headers: dict[str, str]


def has_left(left: list[str], model: str, within_s: float) -> bool:
    """Wait until the client of `model` has left, for so long; return whether it has."""
    end = time.monotonic() + within_s
    while model not in left and time.monotonic() < end:
        time.sleep(0.02)
    return model in left


class WatchedStream(StreamingResponse):
    """An event stream that adds its model to `left` when it stops before its last event.

    The events themselves do not see it: a client may disconnect before the first one is due.
    """

    def __init__(self, events: AsyncIterator[str], model: str, left: list[str]) -> None:
        super().__init__(self._until_end(events), media_type="text/event-stream")
        self._model, self._left, self._ended = model, left, False

    async def _until_end(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        async for event in events:
            yield event
        self._ended = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._ended:
                self._left.append(self._model)


@dataclass(slots=True)
class TranscriptionUpstream:
    """Records all requests; a stream waits in its middle until `go_on` is set."""

    recordings: list[Recording] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def requests_for(self, model: str) -> list[Recording]:
        """Return the requests for a model, by the server's own name for it."""
        return [one for one in self.recordings if one.fields["model"] == f"{model}-there"]

    def was_disconnected(self, model: str, within_s: float = 30) -> bool:
        """Return whether the client of `model` disconnected before the end."""
        return has_left(self.left, model, within_s)

    async def transcribe(self, request: Request) -> Response:
        """Respond to one recording."""
        fields = await self._read(request)
        fault = fields["model"].split("-")[0]
        if fault.isdigit():
            text = f"fault {fault}"
            return JSONResponse({"error": {"message": text}}, int(fault), {"Retry-After": "7"})
        if fault in INVALID_BODIES:
            kind = "text/event-stream" if fields.get("stream") == "true" else "application/json"
            return Response(INVALID_BODIES[fault], media_type=kind)
        if fault == "drip":
            return StreamingResponse(self._drip(), media_type="application/json")
        if fault == "mute":
            await self._wait(request, fields["model"].removesuffix("-there"))
        if fields.get("stream") == "true":
            model = fields["model"].removesuffix("-there")
            return WatchedStream(self._events(model), model, self.left)
        if fields.get("response_format") == "srt":
            return PlainTextResponse(SUBTITLES)
        # A server that chose one of several models names the one that answers.
        chosen = {"chosen": "ear", "forged": "nobody knows"}.get(fault)
        return JSONResponse({"text": "one two"}, 200, {"x-hearth-model": chosen} if chosen else {})

    async def _read(self, request: Request) -> dict[str, Any]:
        digest, size = hashlib.sha256(), 0
        async with request.form() as form:
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            recording = form["file"]
            assert isinstance(recording, UploadFile)
            while block := await recording.read(1 << 20):
                digest.update(block)
                size += len(block)
        kind = request.path_params["kind"]
        self.recordings.append(
            Recording(kind, fields, digest.hexdigest(), size, dict(request.headers))
        )
        return fields

    async def _wait(self, request: Request, model: str) -> None:
        for _ in range(FOREVER_S * 50):
            if await request.is_disconnected():
                self.left.append(model)
                return
            await asyncio.sleep(0.02)

    async def _drip(self) -> AsyncIterator[str]:
        while True:
            yield " "
            await asyncio.sleep(0.1)

    async def _events(self, model: str) -> AsyncIterator[str]:
        yield _event({"type": "transcript.text.delta", "delta": "one "})
        if model.startswith("end"):
            return  # as a server ends that was told to stop: nothing is wrong with the connection
        if model.startswith("cut"):
            raise ConnectionResetError  # uvicorn ends the connection in the middle
        await asyncio.to_thread(self.go_on.wait, FOREVER_S)
        if model.startswith("failing"):
            # As Hearth's own whisper says it; cut in the middle, as a network may.
            failed = _event({"type": "error", "error": {"message": "the card is gone"}})
            yield failed[:12]
            await asyncio.sleep(0.05)
            yield failed[12:]
            return
        yield _event({"type": "transcript.text.delta", "delta": "two"})
        yield _event({"type": "transcript.text.done", "text": "one two"})


def _event(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"

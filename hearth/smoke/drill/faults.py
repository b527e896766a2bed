"""A server that stands before one member each, and breaks it in nine ways when told to.

It runs inside an instance with nothing but Python's own library. A member without a fault is
passed on to where it really is, or played where it may not be asked.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

REFUSED, HANG, DRIP, CUT = "refused", "hang", "drip", "cut"
FAULTS = (REFUSED, "500", "429", HANG, DRIP, "garbage", "empty", CUT, "error in a 200")
# Plays the member itself; without any word at all the real one is asked.
WELL = "well"
_FOREVER_S = 120.0
_DRIP_S = 0.1
_WORDS = ("one ", "two ", "three")
_GARBAGE = b"\x00\xff\xfe<html>{]" * 40
_BLOCK = 64 * 1024
_EVENTS, _JSON = "text/event-stream", "application/json"


@dataclass(slots=True)
class Member:
    """One member: where it is asked here, where it really is, what it does, and what is wrong."""

    name: str
    host: str
    port: int
    real: str | None
    kind: str
    fault: str = ""
    calls: int = 0
    first_s: float = 0.0
    whole_s: float = 0.0
    server: asyncio.Server | None = field(default=None, repr=False)

    async def become(self, fault: str) -> None:
        """Have this fault from now on; whoever is refused meets no listener."""
        self.fault = fault or (WELL if self.real is None else "")
        if fault == REFUSED and self.server:
            self.server.close()
            self.server = None
        elif fault != REFUSED and self.server is None:
            self.server = await asyncio.start_server(self._serve, self.host, self.port)

    def forget(self) -> None:
        """Begin to count anew."""
        self.calls, self.first_s, self.whole_s = 0, 0.0, 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; a connection carries no second one, so a fault counts at once."""
        try:
            head, body = await _request(reader)
            # LiteLLM looks by itself which models a server has, now and then: that asks nobody.
            self.calls += head.startswith(b"POST ")
            if self.fault:
                async for piece in _answer(self.kind, self.fault, head, body):
                    writer.write(piece)
                    await writer.drain()
            else:
                await self._pass_on(head, body, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # whoever left is not told anything
        finally:
            writer.close()

    async def _pass_on(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        there = urlsplit(str(self.real))
        first, *headers = head.decode("latin-1").split("\r\n")
        dropped = ("host:", "connection:", "transfer-encoding:", "content-length:")
        kept = [line for line in headers if line and not line.lower().startswith(dropped)]
        kept += [f"host: {there.netloc}", "connection: close", f"content-length: {len(body)}"]
        began = time.monotonic()
        theirs, back = await asyncio.open_connection(there.hostname, there.port or 80)
        try:
            back.write("\r\n".join([first, *kept, "", ""]).encode("latin-1") + body)
            first_s = 0.0
            while block := await theirs.read(_BLOCK):
                first_s = first_s or time.monotonic() - began
                writer.write(block)
                await writer.drain()
        finally:
            back.close()
        # What of an answer's time was its own.
        self.first_s = max(self.first_s, first_s)
        self.whole_s = max(self.whole_s, time.monotonic() - began)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return head, await reader.readexactly(int(value))
    return head, b""


async def _answer(kind: str, fault: str, head: bytes, body: bytes) -> AsyncIterator[bytes]:
    """Yield what a member of this kind says with this fault; what comes next is the end."""
    streams = _streams(kind, body)
    if fault in ("500", "429"):
        yield _whole(int(fault), {"error": {"message": f"the drill says {fault}"}})
    elif fault == HANG:
        await asyncio.sleep(_FOREVER_S)
    elif fault == DRIP:
        yield _head(200, streams, length=None if streams else 1 << 20)
        for _ in range(int(_FOREVER_S / _DRIP_S)):
            yield b": wait\n\n" if streams else b" "
            await asyncio.sleep(_DRIP_S)
    elif fault == "garbage":
        yield _head(200, streams) + (b"data: " + _GARBAGE + b"\n\n" if streams else _GARBAGE)
    elif fault == "empty":
        yield _head(200, streams, length=0)
    elif fault == "error in a 200":
        problem = {"error": {"message": "the drill says so inside a 200", "code": 500}}
        yield _head(200, True) + _event(problem) if streams else _whole(200, problem)
    elif streams:
        yield _head(200, streams)
        for event in _stream(kind, fault == CUT):
            yield event
    else:
        whole = _whole(200, _content(kind, body))
        yield whole[:-5] if fault == CUT else whole


def _streams(kind: str, body: bytes) -> bool:
    if kind == "transcribe":
        return b'name="stream"\r\n\r\ntrue' in body
    return bool(json.loads(body or b"{}").get("stream"))


def _head(status: int, streams: bool, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Drill", f"content-type: {_EVENTS if streams else _JSON}"]
    lines += ["connection: close"] + ([] if length is None else [f"content-length: {length}"])
    return "\r\n".join([*lines, "", ""]).encode()


def _whole(status: int, content: object) -> bytes:
    text = json.dumps(content).encode()
    return _head(status, False, len(text)) + text


def _event(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def _content(kind: str, body: bytes) -> object:
    if kind == "transcribe":
        return {"text": "".join(_WORDS)}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if kind == "embed":
        many = json.loads(body)["input"]
        count = len(many) if isinstance(many, list) else 1
        rows = [{"object": "embedding", "index": n, "embedding": [0.5, n]} for n in range(count)]
        return {"object": "list", "model": "drill", "data": rows, "usage": usage}
    message = {"role": "assistant", "content": "".join(_WORDS)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "drill", "object": "chat.completion", "created": 1, "model": "drill"}
    return {**head, "choices": [choice], "usage": usage}


def _stream(kind: str, cut: bool) -> list[bytes]:
    """Return the events of an answer; of one that is `cut` the first two."""
    if kind == "transcribe":
        said: list[object] = [{"type": "transcript.text.delta", "delta": w} for w in _WORDS]
        said.append({"type": "transcript.text.done", "text": "".join(_WORDS)})
    else:
        head = {"id": "drill", "object": "chat.completion.chunk", "created": 1, "model": "drill"}
        said = [
            {**head, "choices": [{"index": 0, "delta": {"content": w}, "finish_reason": None}]}
            for w in _WORDS
        ]
        said.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events = [_event(each) for each in said]
    return events[:2] if cut else [*events, b"data: [DONE]\n\n"]

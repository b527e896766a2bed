"""The drill's agent: it breaks members of aliases and sends requests to the drill's gateway.

Sent whole into the gateway's instance, it needs only Python's standard library. It takes the place
of each member; without a fault it forwards to the real server, or answers itself. It takes orders
on a socket that only root can open, and ends when it has had none for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

REFUSED, HANG, DRIP, CUT = "refused", "hang", "drip", "cut"
FAULTS = (REFUSED, "500", "429", HANG, DRIP, "garbage", "empty", CUT, "error in a 200")
# The agent answers itself; without any fault it forwards to the real server.
WELL = "well"
CONTROL = "control"
_FOREVER_S = 120.0
_DRIP_S = 0.1
_WORDS = ("one ", "two ", "three")
_GARBAGE = b"\x00\xff\xfe<html>{]" * 40
_BLOCK_BYTES = 64 * 1024
_ANSWER_BYTES = 256 * 1024
_ORDER_BYTES = 4 * 1024 * 1024
_EVENTS, _JSON = "text/event-stream", "application/json"


@dataclass(slots=True)
class Member:
    """One member: its address here, the `real` server if it may be used, and its fault."""

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

    async def set_fault(self, fault: str) -> None:
        """Have this fault from now on, and count from zero; `refused` closes the port."""
        self.fault = fault or (WELL if self.real is None else "")
        self.calls, self.first_s, self.whole_s = 0, 0.0, 0.0
        if fault == REFUSED and self.server:
            self.server.close()
            self.server = None
        elif fault != REFUSED and self.server is None:
            self.server = await asyncio.start_server(self._serve, self.host, self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request per connection, so that a fault takes effect at once."""
        try:
            head, body = await _request(reader)
            # LiteLLM lists a server's models now and then: that is no call of the member.
            self.calls += head.startswith(b"POST ")
            if self.fault:
                async for piece in _answer(self.kind, self.fault, body):
                    writer.write(piece)
                    await writer.drain()
            else:
                await self._forward(head, body, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # The client has left.
        finally:
            writer.close()

    async def _forward(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        target = urlsplit(str(self.real))
        first, *headers = head.decode("latin-1").split("\r\n")
        dropped = ("host:", "connection:", "transfer-encoding:", "content-length:")
        kept = [line for line in headers if line and not line.lower().startswith(dropped)]
        kept += [f"host: {target.netloc}", "connection: close", f"content-length: {len(body)}"]
        start = time.monotonic()
        answer, real = await asyncio.open_connection(target.hostname, target.port or 80)
        try:
            real.write("\r\n".join([first, *kept, "", ""]).encode("latin-1") + body)
            first_s = 0.0
            while block := await answer.read(_BLOCK_BYTES):
                first_s = first_s or time.monotonic() - start
                writer.write(block)
                await writer.drain()
        finally:
            real.close()
        # The part of an answer's time that the member itself took.
        self.first_s = max(self.first_s, first_s)
        self.whole_s = max(self.whole_s, time.monotonic() - start)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return head, await reader.readexactly(int(value))
    return head, b""


async def _answer(kind: str, fault: str, body: bytes) -> AsyncIterator[bytes]:
    """Yield what a member of this kind sends with this fault, before it closes the connection."""
    streams = _streams(kind, body)
    if fault in ("500", "429"):
        yield _json(int(fault), {"error": {"message": f"the drill returns {fault}"}})
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
        problem = {"error": {"message": "the drill returns it inside a 200", "code": 500}}
        yield _head(200, True) + _event(problem) if streams else _json(200, problem)
    elif streams:
        yield _head(200, streams)
        for event in _stream(kind, body, fault == CUT):
            yield event
    else:
        whole = _json(200, _content(kind, body))
        yield whole[:-5] if fault == CUT else whole


def _streams(kind: str, body: bytes) -> bool:
    if kind == "transcribe":
        return b'name="stream"\r\n\r\ntrue' in body
    return bool(json.loads(body or b"{}").get("stream"))


def _head(status: int, streams: bool, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Drill", f"content-type: {_EVENTS if streams else _JSON}"]
    lines += ["connection: close"] + ([] if length is None else [f"content-length: {length}"])
    return "\r\n".join([*lines, "", ""]).encode()


def _json(status: int, content: object) -> bytes:
    text = json.dumps(content).encode()
    return _head(status, False, len(text)) + text


def _event(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def _content(kind: str, body: bytes) -> object:
    if kind == "transcribe":
        return {"text": "".join(_WORDS)}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    asked = json.loads(body)
    if kind == "embed":
        many = asked["input"]
        count = len(many) if isinstance(many, list) else 1
        rows = [{"object": "embedding", "index": n, "embedding": [0.5, n]} for n in range(count)]
        return {"object": "list", "model": asked["model"], "data": rows, "usage": usage}
    message = {"role": "assistant", "content": "".join(_WORDS)}
    head = _chat("completion", asked["model"], message=message, finish_reason="stop")
    return {**head, "usage": usage}


def _chat(kind: str, model: object, **choice: object) -> dict[str, object]:
    # As Ollama does, it names the model that was requested: the gateway compares the two.
    head = {"id": "drill", "object": f"chat.{kind}", "created": 1, "model": model}
    return {**head, "choices": [{"index": 0, **choice}]}


def _stream(kind: str, body: bytes, cut: bool) -> list[bytes]:
    """Return the events of an answer, or only the first two where it is `cut`."""
    if kind == "transcribe":
        payloads: list[object] = [{"type": "transcript.text.delta", "delta": w} for w in _WORDS]
        payloads.append({"type": "transcript.text.done", "text": "".join(_WORDS)})
    else:
        model = json.loads(body)["model"]
        deltas: list[tuple[dict[str, str], str | None]] = [({"content": w}, None) for w in _WORDS]
        payloads = [
            _chat("completion.chunk", model, delta=delta, finish_reason=reason)
            for delta, reason in (*deltas, ({}, "stop"))
        ]
    events = [_event(each) for each in payloads]
    return events[:2] if cut else [*events, b"data: [DONE]\n\n"]


class DrillAgent:
    """The members that can be broken, and the gateway that gets the requests."""

    def __init__(self, members: list[Member], gateway: tuple[str, int]) -> None:
        self._members = {member.name: member for member in members}
        self._gateway = gateway

    async def set_faults(self, faults: dict[str, str]) -> None:
        """Break these members, and let the others be well."""
        for name, member in self._members.items():
            await member.set_fault(faults.get(name, ""))

    async def serve(self, control: Path, idle_s: float) -> None:
        """Take orders, each one line of JSON, until there was none for `idle_s` seconds."""

        async def carry_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            idle.reschedule(None)
            try:
                order = json.loads(await reader.readline())
                steps = [await self.step(step, order["key"]) for step in order["steps"]]
                writer.write(json.dumps({"steps": steps}).encode() + b"\n")
                await writer.drain()
            finally:
                idle.reschedule(asyncio.get_running_loop().time() + idle_s)
                writer.close()

        with contextlib.suppress(TimeoutError):
            async with (
                asyncio.timeout(idle_s) as idle,
                await asyncio.start_unix_server(carry_out, control, limit=_ORDER_BYTES) as server,
            ):
                await server.serve_forever()

    async def step(self, step: dict[str, Any], key: str) -> dict[str, Any]:
        """Set the faults, send all requests at once; return answers, calls and own times."""
        await self.set_faults(step["faults"])
        requests = (asyncio.to_thread(_send, self._gateway, one, key) for one in step["requests"])
        answers = await asyncio.gather(*requests)
        calls = {name: member.calls for name, member in self._members.items()}
        took = {name: [one.first_s, one.whole_s] for name, one in self._members.items()}
        return {"answers": answers, "calls": calls, "took_s": took}


def _send(gateway: tuple[str, int], request: dict[str, Any], key: str) -> dict[str, Any]:
    """Send a request to the gateway; return status, headers, body and when they came."""
    start = time.monotonic()
    connection = http.client.HTTPConnection(*gateway, timeout=request["within_s"])
    headers = {"Authorization": f"Bearer {key}", "Content-Type": request["type"]}
    answer: dict[str, Any] = {"status": 0, "headers": {}, "body": "", "first_s": 0.0}
    try:
        body = request["body"].encode() if request["body"] else None
        connection.request(request["method"], request["path"], body, headers)
        response = connection.getresponse()
        answer["status"], answer["first_s"] = response.status, time.monotonic() - start
        answer["headers"] = {name.lower(): value for name, value in response.getheaders()}
        answer["body"] = response.read(_ANSWER_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        answer["trouble"] = type(error).__name__
    finally:
        connection.close()
    return answer | {"total_s": time.monotonic() - start}


async def run(plan: dict[str, Any]) -> None:
    """Write the files of the drill's gateway, and take orders until there are no more."""
    folder = Path(os.environ["RUNTIME_DIRECTORY"])
    for name, text in plan["files"].items():
        path = folder / "etc" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        # The gateway runs as another user; these files hold no secret.
        path.chmod(0o644)
        path.parent.chmod(0o755)
    agent = DrillAgent([Member(*row) for row in plan["members"]], tuple(plan["gateway"]))
    await agent.set_faults({})
    # The socket comes last: once it exists, everything else is ready.
    await agent.serve(folder / CONTROL, plan["idle_s"])

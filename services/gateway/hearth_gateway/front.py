"""The ASGI layer before LiteLLM: few paths, keys, names, members in order, deadlines, one line."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import Any

from hearth_gateway import wire
from hearth_gateway.answer import Answer
from hearth_gateway.call import App, Call, Receive, Refused, Scope, Send
from hearth_gateway.custom_auth import GRANT
from hearth_gateway.settings import Consumer, House, Name
from hearth_gateway.walk import Rests

log = logging.getLogger("hearth_gateway")

# Pictures travel in the body; more than this is no request for a model at home.
BODY_BYTES = 64 * 1024 * 1024
HEALTH = frozenset({"/health/liveliness", "/health/readiness"})
MODELS = re.compile(r"/v1/models(/.+)?")
INFERENCE = frozenset(
    {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"}
)


class Stop(Exception):
    """The request ends here with this answer."""

    def __init__(self, status: int, message: str, code: str) -> None:
        """Keep an OpenAI-shaped error."""
        super().__init__(message)
        self.status, self.body = status, wire.error(status, message, code)


@dataclass(slots=True)
class Story:
    """What one request's line in the log says."""

    path: str
    consumer: str = "-"
    name: str = "-"
    member: str = "-"
    tried: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    first: float | None = None

    def line(self, status: int) -> str:
        """Return the line; names are quoted, for a caller may write anything into `model`."""
        first = f"{(self.first - self.started) * 1000:.0f}" if self.first else "-"
        total = (time.monotonic() - self.started) * 1000
        return (
            f"consumer={self.consumer} alias={json.dumps(self.name)} member={self.member} "
            f"status={status} first_ms={first} total_ms={total:.0f} "
            f"tried={','.join(self.tried) or '-'} path={self.path}"
        )


class Front:
    """Wraps LiteLLM's app; everything that is not inference never reaches it."""

    def __init__(self, app: App, house: House, rests: Rests | None = None) -> None:
        """Serve `app` to the consumers of `house`."""
        self._app, self._house, self._rests = app, house, rests or Rests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # uvicorn refuses a WebSocket that nobody accepted
        if scope["path"] in HEALTH and scope["method"] in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        story, answer = Story(scope["path"]), Answer(send)
        try:
            await self._serve(scope, receive, answer, story)
        except (Stop, Refused) as end:
            await answer.fail(end.status, end.body)
        finally:
            # 499: the caller left before there was anything to say.
            log.info("%s", story.line(answer.status or 499))

    async def _serve(self, scope: Scope, receive: Receive, answer: Answer, story: Story) -> None:
        path, method = scope["path"], scope["method"]
        listing = MODELS.fullmatch(path) is not None
        if not listing and path not in INFERENCE:
            raise Stop(404, f"there is no {path} here", "not_found")
        consumer = self._house.consumer(_key(scope))
        if consumer is None:
            raise Stop(401, "wrong or missing API key", "invalid_api_key")
        story.consumer = consumer.name
        if method != ("GET" if listing else "POST"):
            raise Stop(405, f"{path} does not take {method}", "method_not_allowed")
        if listing:
            await self._app({**scope, GRANT: consumer.names}, receive, answer.relay)
            return
        body = await _body(receive)
        name = self._name(body, consumer, story)
        await _unless_gone(receive, self._within(name, body, scope, answer, story))

    def _name(self, body: dict[str, Any], consumer: Consumer, story: Story) -> Name:
        wanted = body.get("model")
        if not isinstance(wanted, str) or not wanted:
            raise Stop(400, "write in `model` which model shall answer", "missing_model")
        story.name = wanted[:80]
        if wanted in consumer.names:
            return self._house.names[wanted]
        # The same words for "unknown" and "not yours": a key must not tell what else there is.
        raise Stop(403, f"this key does not open the model {wanted[:80]!r}", "model_not_allowed")

    async def _within(
        self, name: Name, body: dict[str, Any], scope: Scope, answer: Answer, story: Story
    ) -> None:
        try:
            async with asyncio.timeout(name.total_s):
                await self._walk(name, body, scope, answer, story)
        except TimeoutError:
            message = f"{name.name} did not end within {name.total_s:g} s"
            raise Stop(504, message, "total_timeout") from None

    async def _walk(
        self, name: Name, body: dict[str, Any], scope: Scope, answer: Answer, story: Story
    ) -> None:
        """Ask the members in order until one makes a token; then this one has the word."""
        members = self._rests.order(name.members)
        for member in members:
            story.member = member
            last = member == members[-1]
            try:
                await self._ask(name, {**body, "model": member}, scope, answer, story, last)
            except Refused as refused:
                if answer.status or refused.final:
                    raise
                self._rests.failed(member)
                story.tried.append(f"{member}:{refused.status}")
                if last:
                    raise
            else:
                self._rests.answered(member)
                return

    async def _ask(
        self,
        name: Name,
        body: dict[str, Any],
        scope: Scope,
        answer: Answer,
        story: Story,
        last: bool,
    ) -> None:
        member = body["model"]
        streamed = body.get("stream") is True
        # Only a stream shows when the first token came, so our side of the call always streams.
        gathered = not streamed and scope["path"].endswith("/completions")
        if gathered:
            body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        async with Call(self._app, scope, body, frozenset({member})) as call:
            try:
                # Without tokens to wait for, only a next member is a reason to hurry.
                limit = name.member_s if streamed or gathered or not last else None
                async with asyncio.timeout(limit):
                    whole = b"" if streamed or gathered else await call.whole()
                    if not whole:
                        await call.until_token()
            except TimeoutError:
                text = f"{member} gave no token within {name.member_s:g} s"
                raise Refused(504, wire.error(504, text, "member_timeout")) from None
            story.first = time.monotonic()
            if gathered:
                await answer.gather(member, call)
            elif streamed:
                await answer.stream(member, call)
            else:
                await answer.give(member, call, whole)


async def _unless_gone(receive: Receive, work: Any) -> None:
    """Do `work`, and stop it when the caller leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _key(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return key.strip() if kind.lower() == "bearer" else ""
    return ""


async def _body(receive: Receive) -> dict[str, Any]:
    content = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Stop(400, "the request was cut off", "cut_off")
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > BODY_BYTES:
            raise Stop(413, f"a request has at most {BODY_BYTES} bytes", "too_large")
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Stop(400, "the body is not a JSON object", "invalid_json")
    return body

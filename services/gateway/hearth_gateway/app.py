"""The middleware before LiteLLM: paths, keys, names, members in order, deadlines, access log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.requests import Request

from hearth_gateway.assembly import assembly_for
from hearth_gateway.context import CountTokens, estimate, fitting, largest, left, too_long
from hearth_gateway.cooldowns import Cooldowns
from hearth_gateway.errors import INTERRUPTED, MemberError, member_error, no_answer
from hearth_gateway.fields import passed_fields
from hearth_gateway.figures import EndedRequest, Figures, Usage
from hearth_gateway.interfaces import (
    CHAT,
    COMPLETIONS,
    GENERATING,
    PICTURE_TOKENS,
    needs,
    pictures,
    texts,
    with_limit,
    with_thinking,
)
from hearth_gateway.litellm_call import App, Call, Receive, Scope, Send, warm_up_before_ready
from hearth_gateway.memory import NO_MEMORY, Rooms
from hearth_gateway.models import able, list_models, unable, unknown, unthinking
from hearth_gateway.relay import Relay
from hearth_gateway.response import Response, model_note, wants_note
from hearth_gateway.settings import Consumer, GatewayConfig, Name
from hearth_gateway.thought import ThoughtWatch
from hearth_gateway.uploads import UPLOAD_S, Upload, UploadLimits, Uploads
from hearth_serving.errors import ServiceError, error_content, outcome_of_status
from hearth_serving.limits import Limits, read_body
from hearth_serving.metrics import MEDIA_TYPE, is_canary
from hearth_serving.streaming import run_while_connected

log = logging.getLogger("hearth_gateway")

HEALTH = frozenset({"/health/liveliness", "/health/readiness"})
METRICS = "/metrics"
MODELS = re.compile(r"/v1/models(/.+)?")
INFERENCE = GENERATING | {"/v1/embeddings"}
SPEECH = frozenset({"/v1/audio/transcriptions", "/v1/audio/translations"})
# Enough for pictures, which are in the body.
_BODY_LIMITS = Limits(body_bytes=64 * 1024 * 1024, body_s=UPLOAD_S)
_MAX_LOGGED = 200
# Of one token, in most languages of Europe.
_CHARACTERS = 4


@dataclass(slots=True)
class LogLine:
    """One request's line in the access log."""

    path: str
    consumer: str = "-"
    name: str = "-"
    member: str = "-"
    tried: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    first: float | None = None
    end: str = "done"
    outcome: str = "failed"
    usage: Usage | None = None

    @property
    def failed(self) -> list[str]:
        """The members that gave no answer."""
        return [tried.rpartition(":")[0] for tried in self.tried]

    def text(self, status: int) -> str:
        """Return the line; what a caller or a member wrote is escaped, so that it is one line."""
        first = f"{(self.first - self.started) * 1000:.0f}" if self.first else "-"
        total = (time.monotonic() - self.started) * 1000
        return (
            f"consumer={self.consumer} alias={json.dumps(self.name)} member={self.member} "
            f"status={status} end={_escaped(self.end)} first_ms={first} total_ms={total:.0f} "
            f"tried={','.join(self.tried) or '-'} path={_escaped(self.path)}"
        )


@dataclass(frozen=True, slots=True)
class _Context:
    """One request with a valid key and name; its body is a JSON object or a recording."""

    name: Name
    body: dict[str, Any] | Upload
    scope: Scope
    response: Response
    line: LogLine
    tokens: int | None = None
    """About how many tokens the request has; None where no member's context is known."""


class Gateway:
    """Wraps LiteLLM's app, which gets requests for inference only."""

    def __init__(
        self,
        app: App,
        config: GatewayConfig,
        cooldown_s: float = 30,
        limits: UploadLimits | None = None,
        count: CountTokens = len,
    ) -> None:
        """Serve `app` to the consumers in `config`; `count` returns a text's tokens, about."""
        self._app, self._config, self._count = app, config, count
        self._cooldowns = Cooldowns(cooldown_s)
        self._uploads, self._relay = Uploads(limits or UploadLimits()), Relay()
        self._figures, self._rooms = Figures(config), Rooms(config.names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            send = warm_up_before_ready(self._app, self._config, send)
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # uvicorn rejects a WebSocket that is not accepted
        if scope["path"] in HEALTH and scope["method"] in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        line, response = LogLine(scope["path"]), Response(send, scope["path"])
        if scope["path"] == METRICS and scope["method"] == "GET":
            await response.send_body(self._figures.page(), MEDIA_TYPE)
            return
        try:
            await self._serve(scope, receive, response, line)
            line.outcome = line.end if line.end in ("done", "left") else "failed"
        except (ServiceError, MemberError) as error:
            shown = _in_openai_shape(error) if isinstance(error, ServiceError) else error
            line.end, line.outcome = shown.code, outcome_of_status(shown.status)
            await response.send_error(shown)
        except (asyncio.CancelledError, OSError):
            line.end = line.outcome = "left"
            raise
        finally:
            # 499: the client disconnected before there was a response.
            log.info("%s", line.text(response.status or 499))
            if not is_canary(scope) and not _lists(line.path):
                self._figures.ended(self._ended(line))

    def _ended(self, line: LogLine) -> EndedRequest:
        called = [*line.failed, line.member]
        names = self._config.names
        return EndedRequest(
            consumer=line.consumer,
            name=line.name,
            member=line.member if line.first else "",
            outcome=line.outcome,
            to_cloud=any(name in names and names[name].info.leaves for name in called),
            duration_s=time.monotonic() - line.started,
            first_s=line.first - line.started if line.first and line.path in GENERATING else None,
            usage=line.usage,
        )

    async def _serve(
        self, scope: Scope, receive: Receive, response: Response, line: LogLine
    ) -> None:
        path, method = scope["path"], scope["method"]
        lists = _lists(path)
        if not lists and path not in INFERENCE | SPEECH:
            raise ServiceError(f"{path} does not exist here", status=404, code="not_found")
        consumer = self._config.consumer(_key(scope))
        if consumer is None:
            raise ServiceError("wrong or missing API key", status=401, code="invalid_api_key")
        line.consumer = consumer.name
        if method != ("GET" if lists else "POST"):
            message = f"{path} does not take {method}"
            raise ServiceError(message, status=405, code="method_not_allowed")
        if lists:
            await response.send_json(200, list_models(path, consumer, self._config))
            return
        if path in SPEECH:
            async with self._uploads.receive(scope, receive) as upload:
                name = self._name(upload.model, consumer, line)
                await self._answer(receive, _Context(name, upload, scope, response, line))
            return
        body = await read_json(Request(dict(scope), receive))
        wanted = self._name(body.get("model"), consumer, line)
        name, tokens = await self._fitting(wanted, body, consumer, path)
        await self._answer(receive, _Context(name, body, scope, response, line, tokens))

    async def _fitting(
        self, wanted: Name, body: dict[str, Any], consumer: Consumer, path: str
    ) -> tuple[Name, int | None]:
        """Return the name with the members that can serve a request, and its tokens, if counted."""
        needed = needs(body) if wanted.info.talks else frozenset()
        name = able(wanted, needed, consumer, self._config)
        if name is None:
            raise unable(wanted, needed, consumer, self._config)
        if path == COMPLETIONS:
            name = unthinking(name, self._config)
        most = largest(name.members, self._config)
        if most is None:
            return name, None
        tokens = await estimate(path, body, most, self._count)
        fits = fitting(name, tokens, self._config)
        if fits is None:
            raise too_long(path, name, tokens, consumer, self._config)
        return fits, tokens

    async def _answer(self, receive: Receive, context: _Context) -> None:
        left = await run_while_connected(receive, self._within_timeout(context))
        # A client that has the whole answer disconnects as well.
        response = context.response
        context.line.end = "left" if left and not response.ended else response.end

    def _name(self, wanted: Any, consumer: Consumer, line: LogLine) -> Name:
        if not isinstance(wanted, str) or not wanted:
            raise ServiceError("write a model's name in `model`", code="missing_model")
        line.name = wanted[:80]
        if wanted not in self._config.names:
            raise unknown(wanted, consumer)
        if wanted not in consumer.names:
            message = f"this key may not use the model {wanted[:80]!r}"
            raise ServiceError(message, status=403, code="model_not_allowed")
        name = self._config.names[wanted]
        if bool(name.servers) != (line.path in SPEECH):
            does = "turns speech into text" if name.servers else "does not turn speech into text"
            raise ServiceError(f"{wanted} {does}; {line.path} does not", code="wrong_path")
        return name

    async def _within_timeout(self, context: _Context) -> None:
        name, line = context.name, context.line
        try:
            async with asyncio.timeout(name.timeout_s):
                await self._try_members(context)
        except TimeoutError:
            tried = [*line.failed, line.member]
            message = f"{name.name} did not end within {name.timeout_s:g} s"
            if tried != [name.name]:
                message += f"; tried: {', '.join(tried)}"
            raise member_error(504, message, "total_timeout") from None

    async def _try_members(self, context: _Context) -> None:
        """Call the members in order; the first one with a token answers."""
        members = self._cooldowns.order(context.name.members)
        failures: list[tuple[str, MemberError]] = []
        for member in members:
            context.line.member = member
            try:
                await self._ask(member, context, member == members[-1])
                return
            except MemberError as error:
                self._start_cooldown(member, context, error)
                if context.response.status or error.final:
                    raise
                context.line.tried.append(f"{member}:{error.status}")
                failures.append((member, error))
        raise no_answer(context.name.name, failures)

    def _start_cooldown(self, member: str, context: _Context, error: MemberError) -> None:
        # A request that is bad with every member is not a member's failure, and room comes back.
        if not error.final and error.code != NO_MEMORY:
            recording = isinstance(context.body, Upload)
            self._cooldowns.failed(member, error.status, recording, error.code == INTERRUPTED)

    async def _ask(self, member: str, context: _Context, last: bool) -> None:
        if isinstance(context.body, Upload):
            await self._transcribe(member, context, context.body, last)
            return
        async with self._rooms.admitted(member):
            await self._generate(member, context, context.body, last)

    async def _transcribe(self, member: str, context: _Context, upload: Upload, last: bool) -> None:
        path, response = context.scope["path"], context.response
        async with self._relay.send(path, upload, context.name, member, last=last) as reply:
            whole = b"" if reply.streams else reply.whole()
            if reply.model in self._config.names:
                context.line.member = member = reply.model
            self._note_first(member, context)
            if reply.streams:
                await response.stream(member, reply)
            else:
                await response.send_whole(member, reply, whole)

    async def _generate(
        self, member: str, context: _Context, requested: dict[str, Any], last: bool
    ) -> None:
        path, response = context.scope["path"], context.response
        streamed = requested.get("stream") is True
        # Only a stream shows the time of the first token, so our side of the call always streams.
        assembled = not streamed and path in GENERATING
        chunks = path.endswith("/completions")
        model, lines = self._config.names[member].info, path == CHAT and wants_note(context.scope)
        body = with_thinking(path, requested | {"model": member}, context.name.thinking, model)
        body = with_limit(path, body, left(member, context.tokens, self._config))
        watch = ThoughtWatch(path, member, model, lines)
        if assembled:
            body["stream"] = True
        options = body.get("stream_options") or {}
        if chunks:
            # For the figures; a stream that did not ask for it gets none.
            body["stream_options"] = {**options, "include_usage": True}
            response.hides_usage = not (assembled or options.get("include_usage"))
        async with Call(self._app, self._config, path, body, context.scope) as call:
            tokens = streamed or assembled
            # An answer without tokens is cancelled only if there is a next member.
            limit_s = context.name.first_token_timeout_s if tokens or not last else None
            whole = await _first(call, member, tokens, limit_s)
            self._note_first(member, context)
            context.line.usage = response.usage
            response.usage.estimate = lambda: _about(requested)
            context.line.member = member = call.answered_by
            if assembled:
                await response.send_assembled(
                    member, call, assembly_for(path), watch, chunks=chunks
                )
            elif streamed:
                note = self._note(context, member) if lines else b""
                await response.stream(member, call, note, watch, chunks=chunks)
            else:
                response.usage.read_embeddings(whole)
                await response.send_whole(member, call, whole)

    def _note_first(self, member: str, context: _Context) -> None:
        """Record the first token now: a client may disconnect as soon as it has the answer."""
        context.line.first = time.monotonic()
        self._cooldowns.answered(member)

    def _note(self, context: _Context, member: str) -> bytes:
        leaves = self._config.names[member].info.leaves
        return model_note(context.line.name, member, context.line.failed, leaves)


def _about(requested: dict[str, Any]) -> int:
    """Return about how many tokens were sent, where no server reports it."""
    return sum(map(len, texts(requested))) // _CHARACTERS + PICTURE_TOKENS * pictures(requested)


def _lists(path: str) -> bool:
    return MODELS.fullmatch(path) is not None


def _escaped(text: str) -> str:
    return quote(text[:_MAX_LOGGED], safe="/:.-_~")


def _in_openai_shape(error: ServiceError) -> MemberError:
    body = error_content(error.status, str(error), error.code, error.param)
    return MemberError(error.status, body, error.retry_after_s)


def _key(scope: Scope) -> str:
    """Return the bearer key of a request, or nothing."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return str(key.strip()) if kind.lower() == "bearer" else ""
    return ""


async def read_json(request: Request) -> dict[str, Any]:
    """Return the fields of the JSON object in a request's body that may go on to a member."""
    content = await read_body(request, _BODY_LIMITS)
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):  # so are a thousand brackets
        read = None
    if not isinstance(read, dict):
        raise ServiceError("the body is not a JSON object", code="invalid_json")
    return passed_fields(request.scope["path"], read)


async def _first(call: Call, member: str, tokens: bool, limit_s: float | None) -> bytes:
    """Wait for the first token, or for the whole answer of a model without `tokens`."""
    try:
        async with asyncio.timeout(limit_s):
            if not tokens:
                return await call.whole()
            await call.until_token()
            return b""
    except TimeoutError:
        message = f"{member} gave no answer within {limit_s:g} s"
        raise member_error(504, message, "member_timeout") from None

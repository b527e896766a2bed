"""The middleware before LiteLLM: paths, keys, names, members in order, deadlines, access log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from hearth_gateway.assembly import assembly_for
from hearth_gateway.cooldowns import Cooldowns
from hearth_gateway.errors import INTERRUPTED, MemberError, member_error, no_answer
from hearth_gateway.litellm_call import App, Call, Receive, Scope, Send, warm_up_before_ready
from hearth_gateway.models import has_picture, list_models, with_vision
from hearth_gateway.relay import Relay
from hearth_gateway.response import Response, model_note, wants_note
from hearth_gateway.settings import Consumer, GatewayConfig, Name
from hearth_gateway.uploads import UPLOAD_S, Upload, UploadLimits, Uploads
from hearth_serving.errors import ServiceError, error_content
from hearth_serving.limits import Limits, read_body
from hearth_serving.streaming import run_while_connected

log = logging.getLogger("hearth_gateway")

HEALTH = frozenset({"/health/liveliness", "/health/readiness"})
MODELS = re.compile(r"/v1/models(/.+)?")
CHAT = "/v1/chat/completions"
GENERATING = frozenset({CHAT, "/v1/completions", "/v1/responses"})
INFERENCE = GENERATING | {"/v1/embeddings"}
SPEECH = frozenset({"/v1/audio/transcriptions", "/v1/audio/translations"})
# Enough for pictures, which are in the body.
_BODY_LIMITS = Limits(body_bytes=64 * 1024 * 1024, body_s=UPLOAD_S)
# Parameters in a body can control LiteLLM: other servers, retries, made-up answers. These are
# missing in LiteLLM's own list of them.
_CONTROLS = frozenset(
    [
        "base_url",
        "content_policy_fallbacks",
        "context_window_fallbacks",
        "disable_fallbacks",
        "extra_body",
        "extra_headers",
        "mock_delay",
        "mock_testing_content_policy_fallbacks",
        "mock_testing_context_fallbacks",
        "mock_testing_fallbacks",
        "mock_testing_rate_limit_error",
        "mock_tool_calls",
        "router_settings_override",
        "timeout",
        "user_config",
    ]
)
IsControl = Callable[[str], bool]


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

    @property
    def failed(self) -> list[str]:
        """The members that gave no answer."""
        return [tried.rpartition(":")[0] for tried in self.tried]

    def text(self, status: int) -> str:
        """Return the line; names are quoted, because `model` may contain anything."""
        first = f"{(self.first - self.started) * 1000:.0f}" if self.first else "-"
        total = (time.monotonic() - self.started) * 1000
        return (
            f"consumer={self.consumer} alias={json.dumps(self.name)} member={self.member} "
            f"status={status} end={self.end} first_ms={first} total_ms={total:.0f} "
            f"tried={','.join(self.tried) or '-'} path={self.path}"
        )


@dataclass(frozen=True, slots=True)
class _Context:
    """One request with a valid key and name; its body is a JSON object or a recording."""

    name: Name
    body: dict[str, Any] | Upload
    scope: Scope
    response: Response
    line: LogLine


class Gateway:
    """Wraps LiteLLM's app, which gets requests for inference only."""

    def __init__(
        self,
        app: App,
        config: GatewayConfig,
        is_control: IsControl = lambda _: False,
        cooldown_s: float = 30,
        limits: UploadLimits | None = None,
    ) -> None:
        """Serve `app` to the consumers in `config`; `is_control` parameters are dropped."""
        self._app, self._config, self._is_control = app, config, is_control
        self._cooldowns = Cooldowns(cooldown_s)
        self._uploads, self._relay = Uploads(limits or UploadLimits()), Relay()

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
        line, response = LogLine(scope["path"]), Response(send)
        try:
            await self._serve(scope, receive, response, line)
        except (ServiceError, MemberError) as error:
            shown = _in_openai_shape(error) if isinstance(error, ServiceError) else error
            line.end = shown.code
            await response.send_error(shown)
        except (asyncio.CancelledError, OSError):
            line.end = "left"
            raise
        finally:
            # 499: the client disconnected before there was a response.
            log.info("%s", line.text(response.status or 499))

    async def _serve(
        self, scope: Scope, receive: Receive, response: Response, line: LogLine
    ) -> None:
        path, method = scope["path"], scope["method"]
        lists = MODELS.fullmatch(path) is not None
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
        body = await read_json(Request(dict(scope), receive), self._is_control)
        name = self._name(body.get("model"), consumer, line)
        if has_picture(body):
            name = with_vision(name, consumer, self._config) or name
        await self._answer(receive, _Context(name, body, scope, response, line))

    async def _answer(self, receive: Receive, context: _Context) -> None:
        left = await run_while_connected(receive, self._within_timeout(context))
        # A client that has the whole answer disconnects as well.
        response = context.response
        context.line.end = "left" if left and not response.ended else response.end

    def _name(self, wanted: Any, consumer: Consumer, line: LogLine) -> Name:
        if not isinstance(wanted, str) or not wanted:
            raise ServiceError("write a model's name in `model`", code="missing_model")
        line.name = wanted[:80]
        if wanted not in consumer.names:
            # The same message for unknown names: a key must not reveal other names.
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
        # A request that is bad with every member is not a member's failure.
        if not error.final:
            recording = isinstance(context.body, Upload)
            self._cooldowns.failed(member, error.status, recording, error.code == INTERRUPTED)

    async def _ask(self, member: str, context: _Context, last: bool) -> None:
        if isinstance(context.body, Upload):
            await self._transcribe(member, context, context.body, last)
        else:
            await self._generate(member, context, context.body, last)

    async def _transcribe(self, member: str, context: _Context, upload: Upload, last: bool) -> None:
        path, response = context.scope["path"], context.response
        async with self._relay.send(path, upload, context.name, member, last=last) as reply:
            whole = b"" if reply.streams else reply.whole()
            self._note_first(member, context)
            if reply.streams:
                await response.stream(member, reply)
            else:
                await response.send_whole(member, reply, whole)

    async def _generate(
        self, member: str, context: _Context, asked: dict[str, Any], last: bool
    ) -> None:
        path, response = context.scope["path"], context.response
        streamed = asked.get("stream") is True
        # Only a stream shows the time of the first token, so our side of the call always streams.
        assembled = not streamed and path in GENERATING
        chunks = path.endswith("/completions")
        body = {**asked, "model": member}
        if assembled:
            body["stream"] = True
            if chunks:
                body["stream_options"] = {"include_usage": True}
        async with Call(self._app, context.scope, body, frozenset({member})) as call:
            tokens = streamed or assembled
            # An answer without tokens is cancelled only if there is a next member.
            limit_s = context.name.first_token_timeout_s if tokens or not last else None
            whole = await _first(call, member, tokens, limit_s)
            self._note_first(member, context)
            if assembled:
                await response.send_assembled(member, call, assembly_for(path), chunks=chunks)
            elif streamed:
                await response.stream(member, call, self._note(context, member), chunks=chunks)
            else:
                await response.send_whole(member, call, whole)

    def _note_first(self, member: str, context: _Context) -> None:
        """Record the first token now: a client may disconnect as soon as it has the answer."""
        context.line.first = time.monotonic()
        self._cooldowns.answered(member)

    def _note(self, context: _Context, member: str) -> bytes:
        if not (context.scope["path"] == CHAT and wants_note(context.scope)):
            return b""
        leaves = self._config.names[member].info.leaves
        return model_note(context.line.name, member, context.line.failed, leaves)


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


async def read_json(request: Request, is_control: IsControl) -> dict[str, Any]:
    """Return the JSON object in a request's body, without parameters that control LiteLLM."""
    content = await read_body(request, _BODY_LIMITS)
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):  # so are a thousand brackets
        read = None
    if not isinstance(read, dict):
        raise ServiceError("the body is not a JSON object", code="invalid_json")
    return {name: read[name] for name in read if not (is_control(name) or name in _CONTROLS)}


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

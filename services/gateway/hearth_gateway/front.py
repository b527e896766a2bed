"""The ASGI layer before LiteLLM: few paths, keys, names, members in order, deadlines, one line."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any

from hearth_gateway import request, status, warm, wire, words
from hearth_gateway.answer import Answer
from hearth_gateway.assembly import assembly_for
from hearth_gateway.call import App, Call, Receive, Refused, Scope, Send
from hearth_gateway.listing import listing
from hearth_gateway.pictures import onlooker, shows_picture
from hearth_gateway.relay import Relay
from hearth_gateway.settings import Consumer, House, Name
from hearth_gateway.turn import Story, Turn
from hearth_gateway.upload import Bounds, Upload, Uploads
from hearth_gateway.walk import Rests
from hearth_serving.gone import unless_gone

log = logging.getLogger("hearth_gateway")

HEALTH = frozenset({"/health/liveliness", "/health/readiness"})
MODELS = re.compile(r"/v1/models(/.+)?")
CHAT = "/v1/chat/completions"
GATHERED = frozenset({CHAT, "/v1/completions", "/v1/responses"})
INFERENCE = GATHERED | {"/v1/embeddings"}
SPEECH = frozenset({"/v1/audio/transcriptions", "/v1/audio/translations"})


class Front:
    """Wraps LiteLLM's app; everything that is not inference never reaches it."""

    def __init__(
        self,
        app: App,
        house: House,
        steers: request.Steers = request.nothing,
        rest_s: float = 30,
        bounds: Bounds | None = None,
    ) -> None:
        """Serve `app` to the consumers of `house`; callers may not send what `steers` names."""
        self._app, self._house, self._steers = app, house, steers
        self._rests = Rests(rest_s)
        self._uploads, self._relay = Uploads(bounds or Bounds()), Relay()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, warm.before_ready(self._app, self._house, send))
            return
        if scope["type"] != "http":
            return  # uvicorn refuses a WebSocket that nobody accepted
        if scope["path"] in HEALTH and scope["method"] in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        story, answer = Story(scope["path"]), Answer(send)
        try:
            await self._serve(scope, receive, answer, story)
        except (request.Stop, Refused) as end:
            story.end = str(end.body["error"].get("code") or end.status)
            await answer.fail(end)
        except (asyncio.CancelledError, OSError):
            story.end = "left"
            raise
        finally:
            # 499: the caller left before there was anything to say.
            log.info("%s", story.line(answer.status or 499))

    async def _serve(self, scope: Scope, receive: Receive, answer: Answer, story: Story) -> None:
        path, method = scope["path"], scope["method"]
        lists = MODELS.fullmatch(path) is not None
        if not lists and path not in INFERENCE | SPEECH:
            raise request.Stop(404, f"there is no {path} here", "not_found")
        consumer = self._house.consumer(request.key(scope))
        if consumer is None:
            raise request.Stop(401, "wrong or missing API key", "invalid_api_key")
        story.consumer = consumer.name
        if method != ("GET" if lists else "POST"):
            raise request.Stop(405, f"{path} does not take {method}", "method_not_allowed")
        if lists:
            await answer.say(200, listing(path, consumer, self._house))
            return
        if path in SPEECH:
            async with self._uploads.receive(scope, receive) as upload:
                name = self._name(upload.model, consumer, story)
                await self._answer(receive, Turn(name, upload, scope, answer, story))
            return
        body = await request.body(receive, self._steers)
        name = self._name(body.get("model"), consumer, story)
        if shows_picture(body):
            name = onlooker(name, consumer, self._house) or name
        await self._answer(receive, Turn(name, body, scope, answer, story))

    async def _answer(self, receive: Receive, turn: Turn) -> None:
        left = await unless_gone(receive, self._within(turn))
        # A caller who has the whole answer hangs up as well.
        turn.story.end = "left" if left and not turn.answer.ended else turn.answer.end

    def _name(self, wanted: Any, consumer: Consumer, story: Story) -> Name:
        if not isinstance(wanted, str) or not wanted:
            raise request.Stop(400, "write in `model` which model shall answer", "missing_model")
        story.name = wanted[:80]
        if wanted not in consumer.names:
            # The same words for "unknown" and "not yours": a key must not tell what else there is.
            message = f"this key does not open the model {wanted[:80]!r}"
            raise request.Stop(403, message, "model_not_allowed")
        name = self._house.names[wanted]
        if bool(name.servers) != (story.path in SPEECH):
            does = "turns speech into text" if name.servers else "turns no speech into text"
            raise request.Stop(400, f"{wanted} {does}: not by {story.path}", "wrong_path")
        return name

    async def _within(self, turn: Turn) -> None:
        name, story = turn.name, turn.story
        try:
            async with asyncio.timeout(name.timeout_s):
                await self._walk(turn)
        except TimeoutError:
            asked = [tried.rpartition(":")[0] for tried in story.tried] + [story.member]
            message = f"{name.name} did not end within {name.timeout_s:g} s"
            if asked != [name.name]:
                message += f"; asked: {', '.join(asked)}"
            raise request.Stop(504, message, "total_timeout") from None

    async def _walk(self, turn: Turn) -> None:
        """Ask the members in order until one makes a token; then this one has the word."""
        members = self._rests.order(turn.name.members)
        failures: list[words.Failure] = []
        for member in members:
            turn.story.member = member
            try:
                await self._ask(member, turn, member == members[-1])
                return
            except Refused as refused:
                self._note(member, turn, refused)
                if turn.answer.status or refused.final:
                    raise
                turn.story.tried.append(f"{member}:{refused.status}")
                failures.append(words.Failure(member, refused.status, refused.body))
                retry_after_s = refused.retry_after_s
        raise Refused(*words.nobody(turn.name.name, failures), retry_after_s)

    def _note(self, member: str, turn: Turn, refused: Refused) -> None:
        """Let who failed rest; a request that is bad with every member is nobody's failure."""
        if not refused.final:
            cut = refused.body["error"].get("code") == "broken_off"
            sent_much = isinstance(turn.body, Upload)
            self._rests.failed(member, refused.status, sent_much, cut)

    async def _ask(self, member: str, turn: Turn, last: bool) -> None:
        if isinstance(turn.body, Upload):
            await self._listen(member, turn, turn.body, last)
        else:
            await self._speak(member, turn, turn.body, last)

    async def _listen(self, member: str, turn: Turn, upload: Upload, last: bool) -> None:
        path, answer = turn.scope["path"], turn.answer
        async with self._relay.ask(path, upload, turn.name, member, last=last) as reply:
            whole = b"" if reply.streams else reply.whole()
            self._begins(member, turn)
            if reply.streams:
                await answer.stream(member, reply)
            else:
                await answer.give(member, reply, whole)

    async def _speak(self, member: str, turn: Turn, asked: dict[str, Any], last: bool) -> None:
        path, answer = turn.scope["path"], turn.answer
        streamed = asked.get("stream") is True
        # Only a stream shows when the first token came, so our side of the call always streams.
        gathered = not streamed and path in GATHERED
        chunks = path.endswith("/completions")
        body = {**asked, "model": member}
        if gathered:
            body["stream"] = True
            if chunks:
                body["stream_options"] = {"include_usage": True}
        async with Call(self._app, turn.scope, body, frozenset({member})) as call:
            tokens = streamed or gathered
            # Without tokens to wait for, only a next member is a reason to hurry.
            limit_s = turn.name.first_token_timeout_s if tokens or not last else None
            whole = await _first(call, member, tokens, limit_s)
            self._begins(member, turn)
            if gathered:
                await answer.gather(member, call, assembly_for(path), chunks=chunks)
            elif streamed:
                await answer.stream(member, call, self._status(turn, member), chunks=chunks)
            else:
                await answer.give(member, call, whole)

    def _begins(self, member: str, turn: Turn) -> None:
        """Note the first word: now, for whoever has all of an answer may be gone at once."""
        turn.story.first = time.monotonic()
        self._rests.answered(member)

    def _status(self, turn: Turn, member: str) -> bytes:
        if not (turn.scope["path"] == CHAT and status.asked(turn.scope)):
            return b""
        failed = [tried.rpartition(":")[0] for tried in turn.story.tried]
        leaves = self._house.names[member].shown.leaves
        return status.line(turn.story.name, member, failed, leaves)


async def _first(call: Call, member: str, tokens: bool, limit_s: float | None) -> bytes:
    """Wait for the first token, or for the whole answer of what makes no `tokens`."""
    try:
        async with asyncio.timeout(limit_s):
            if not tokens:
                return await call.whole()
            await call.until_token()
            return b""
    except TimeoutError:
        text = f"{member} gave no answer within {limit_s:g} s"
        raise Refused(504, wire.error(504, text, "member_timeout")) from None

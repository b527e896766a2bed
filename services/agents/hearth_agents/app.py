"""The web application: OpenAI's interface, health and figures."""

import contextlib
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from prometheus_client import Counter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Send

from hearth_agents.broker import Broker
from hearth_agents.config import PREFIX, Config
from hearth_agents.models import make_client
from hearth_agents.player import Player
from hearth_agents.requests import Asked, read_request
from hearth_agents.run import Run, Step
from hearth_agents.shapes import ChatShape, ResponsesShape, Shape
from hearth_agents.store import Store
from hearth_agents.team import Team
from hearth_serving import application
from hearth_serving.application import AppState, Fail
from hearth_serving.errors import ServiceError, error_body, error_response, quoted
from hearth_serving.limits import Limits, read_body
from hearth_serving.metrics import Metrics
from hearth_serving.streaming import StreamedResponse

_MIB = 1024 * 1024
LIMITS = Limits(body_bytes=8 * _MIB, timeout_s=4 * 3600)
"""A request lasts as long as its run, which may wait a quarter of an hour for a person, twice."""
MAX_RUNS = 16
_PERSON_HEADER = "x-openwebui-user-name"
_OPEN = frozenset(["/health", "/metrics"])


class Figures(Metrics):
    """Counts of the runs' steps and costs."""

    def __init__(self) -> None:
        super().__init__("hearth_agents", "requests by their end")
        registry = self.registry
        self._steps = Counter("hearth_agents_steps", "steps", ["kind"], registry=registry)
        self._tokens = Counter("hearth_agents_tokens", "tokens of all models", registry=registry)
        self._eur = Counter("hearth_agents_cloud_eur", "money for the cloud", registry=registry)

    def step(self, step: Step) -> None:
        """Count a step."""
        self._steps.labels(step.kind).inc()

    def costs(self, run: Run) -> None:
        """Count what a run has cost."""
        self._tokens.inc(run.costs.tokens)
        self._eur.inc(run.costs.eur)


@dataclass(slots=True, kw_only=True)
class AgentsState(AppState):
    """The server's parts; each consumer has a key of its own."""

    config: Config
    team: Team
    player: Player
    open_paths: frozenset[str] = _OPEN
    figures: Figures = field(default_factory=Figures)
    running: int = 0

    @property
    def is_open(self) -> bool:
        """No consumer is without a key."""
        return False

    def accepts_key(self, authorization: list[str]) -> bool:
        """Return whether this is some consumer's key."""
        return self.consumer(authorization) is not None

    def consumer(self, authorization: list[str]) -> str | None:
        """Return whose key this is, in a time that does not depend on the input."""
        first = authorization[0].strip() if len(authorization) == 1 else ""
        scheme, _, sent = first.partition(" ")
        digest = hashlib.sha256(sent.strip().encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for name, known in self.config.consumers.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found if scheme.lower() == "bearer" else None


def make_app(
    config: Config, litellm_key: str, broker_key: str, state_folder: Path, own: Path | None
) -> tuple[AgentsState, Starlette]:
    """Return the state and the application."""
    client, broker = make_client(config.litellm, litellm_key), Broker(config.broker, broker_key)
    team = Team(config, client, broker, own)
    player = Player(config, team, broker, Store(state_folder / "runs.db"))
    state = AgentsState(limits=LIMITS, config=config, team=team, player=player)
    state.figures.watch("runs", "runs at this moment", lambda: state.running)

    async def load() -> None:
        # Only to be ready earlier: every request tries again.
        with contextlib.suppress(Exception):
            await team.build()

    async def close() -> None:
        await client.close()
        await broker.close()

    routes = [
        Route("/health", _health),
        Route("/metrics", _metrics),
        Route("/v1/models", _models),
        Route("/v1/chat/completions", _chat, methods=["POST"]),
        Route("/v1/responses", _responses, methods=["POST"]),
    ]
    fail: Fail = lambda _: None  # noqa: E731 - `load` raises nothing
    return state, application.make_app(routes, state, load=load, close=close, fail=fail)


def _state(request: Request) -> AgentsState:
    state = request.app.state.server
    assert isinstance(state, AgentsState)  # noqa: S101 - make_app put it there
    return state


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _metrics(request: Request) -> Response:
    return _state(request).figures.page()


async def _models(request: Request) -> Response:
    created, team = int(time.time()), _state(request).team
    data = [
        {
            "id": name,
            "name": title,
            "object": "model",
            "created": created,
            "owned_by": "hearth",
            # Only Open WebUI reads this; its own tools would stand before every question.
            "info": {
                "meta": {
                    "description": team.summaries[name],
                    "capabilities": {"usage": True, "builtin_tools": False},
                }
            },
        }
        for name, title in team.offered.items()
    ]
    return JSONResponse({"object": "list", "data": data})


async def _chat(request: Request) -> Response:
    return await _answer(request, is_chat=True)


async def _responses(request: Request) -> Response:
    return await _answer(request, is_chat=False)


async def _answer(request: Request, *, is_chat: bool) -> Response:
    state = _state(request)
    try:
        body = await read_body(request, state.limits)
        consumer = state.consumer(request.headers.getlist("authorization")) or ""
        wrote = state.player.wrote
        asked = read_request(body, request.headers, consumer, wrote, is_chat=is_chat)
        # Without the prefix, a name means the agent as well.
        if f"{PREFIX}{asked.task.agent}" not in state.team.offered:
            message = f"there is no agent {quoted(asked.model)}; /v1/models lists them"
            raise ServiceError(message, status=404, param="model", code="model_not_found")
        if state.running >= MAX_RUNS:
            message = f"{MAX_RUNS} runs are going on; try again"
            raise ServiceError(message, status=429, code="busy", retry_after_s=10)
    except ServiceError as error:
        return error_response(error)
    shape: Shape = (
        ChatShape(asked.model, asked.wants_usage) if is_chat else ResponsesShape(asked.model)
    )
    is_chat_ui = consumer in state.config.chats
    person = unquote(request.headers.get(_PERSON_HEADER, ""))[:60] if is_chat_ui else ""
    return _RunResponse(state, asked, consumer, person, shape)


class _RunResponse(StreamedResponse):
    """Plays a run while its client is connected."""

    def __init__(
        self, state: AgentsState, asked: Asked, consumer: str, person: str, shape: Shape
    ) -> None:
        super().__init__(state.limits, "the run did not end")
        self._state, self._asked, self._shape = state, asked, shape
        self._run = Run(
            consumer=consumer,
            person=person,
            agent=asked.task.agent,
            id=asked.run_id,
            chat=asked.chat,
            titles=state.team.titles,
            limits=state.config.limits,
            prices=state.config.prices,
            system=asked.system,
            brought=asked.brought,
        )

    async def produce(self, send: Send) -> None:
        """Play the run."""
        self._state.running += 1
        try:
            if self._asked.streamed:
                await self._stream(send)
            else:
                await self._whole(send)
        finally:
            self._state.running -= 1
            self._state.figures.costs(self._run)

    async def _stream(self, send: Send) -> None:
        kind, shape = "text/event-stream", self._shape
        await self.write(send, b"".join(shape.start()), kind)
        async with contextlib.aclosing(self._state.player.play(self._run, self._asked.task)) as all:
            async for event in all:
                if isinstance(event, Step):
                    self._state.figures.step(event)
                # A comment: it keeps proxies from closing, and finds clients that are gone.
                data = b": heartbeat\n\n" if event is None else b"".join(shape.event(event))
                await self.write(send, data, kind)
        await self.write(send, b"".join(shape.end(self._run.costs)), kind, last=True)

    async def _whole(self, send: Send) -> None:
        async with contextlib.aclosing(self._state.player.play(self._run, self._asked.task)) as all:
            events = [event async for event in all if event is not None]
        content = json.dumps(self._shape.whole(events, self._run.costs)).encode()
        await self.write(send, content, "application/json", last=True, length=len(content))

    def interrupted(self, error: ServiceError) -> tuple[bytes, str] | None:
        """Return an error as the last event of a stream."""
        return b"data: " + json.dumps(error_body(error)).encode() + b"\n\n", "text/event-stream"

    def ended(self, outcome: str) -> None:
        """Count the request."""
        self._state.figures.ended(outcome)

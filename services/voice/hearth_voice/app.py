"""The web application: the calls, the page, health and figures."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from hearth_serving import application
from hearth_serving.application import AppState, Fail
from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits
from hearth_serving.metrics import memory_bytes
from hearth_serving.page import page_routes
from hearth_voice.call import MAX_EVENT_BYTES, Call, Line, NotReading
from hearth_voice.chat_model import ChatModel
from hearth_voice.config import Config
from hearth_voice.session import Session
from hearth_voice.settings import Settings
from hearth_voice.speech import SpeechServer
from hearth_voice.turns import Figures

# A client reads why its event is too large, up to twice the limit.
LIMITS = Limits(message_bytes=2 * MAX_EVENT_BYTES, connections=64)
_TRY_AGAIN, _POLICY = 1013, 1008
_PAGE = Path(__file__).parent / "page"
# Loaded with the microphone, not with the page.
_NOT_PRELOADED = frozenset(["worklet.mjs"])
_OPEN = frozenset(["/health", "/metrics"])


@dataclass(slots=True, kw_only=True)
class VoiceState(AppState):
    """The server's parts."""

    config: Config
    model: ChatModel
    speech: SpeechServer
    open_paths: frozenset[str] = _OPEN
    figures: Figures = field(default_factory=Figures)
    calls: int = 0
    started: float = field(default_factory=time.monotonic)


def make_app(
    config: Config, litellm_key: str, key: str | None = None
) -> tuple[VoiceState, Starlette]:
    """Return the state and the application; without a key, the link decides who may call."""
    model = ChatModel(config.litellm, litellm_key)
    state = VoiceState(
        limits=LIMITS, key=key, config=config, model=model, speech=SpeechServer(config.kokoro)
    )
    state.figures.metrics.watch("calls", "calls at this moment", lambda: state.calls)
    routes: Sequence[BaseRoute] = [
        *page_routes(_PAGE, {}, _NOT_PRELOADED),
        Route("/health", _health),
        Route("/metrics", _metrics),
        Route("/status", _status),
        Route("/v1/realtime/turns", _turns),
        WebSocketRoute("/v1/realtime", _realtime),
    ]

    async def load() -> None:
        pass

    fail: Fail = lambda _: None  # noqa: E731 - `load` raises nothing
    return state, application.make_app(routes, state, load=load, close=model.close, fail=fail)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _metrics(request: Request) -> Response:
    state: VoiceState = request.app.state.server
    return state.figures.metrics.page()


async def _status(request: Request) -> Response:
    state: VoiceState = request.app.state.server
    content: dict[str, Any] = {
        "calls": state.calls,
        "limit": state.config.calls,
        "model": state.config.model,
        "memory_bytes": memory_bytes(),
        "uptime_s": round(time.monotonic() - state.started, 1),
        **state.figures.describe(),
    }
    return JSONResponse(content)


async def _turns(request: Request) -> Response:
    """Return the stages of the last turns of all calls: figures, and no word."""
    state: VoiceState = request.app.state.server
    return JSONResponse({"turns": list(state.figures.turns)})


async def _realtime(socket: WebSocket) -> None:
    """Serve a call."""
    state: VoiceState = socket.app.state.server
    metrics = state.figures.metrics
    await socket.accept(subprotocol=_subprotocol(socket))
    line = Line(socket)
    session = Session(
        config=state.config,
        model=state.model,
        speech=state.speech,
        figures=state.figures,
        write=line.send,
        alias=state.config.model,
        settings=Settings(model=socket.query_params.get("model", "") or state.config.model),
        wants_figures=socket.query_params.get("figures") == "true",
        speculates=socket.query_params.get("speculate") != "false",
    )
    try:
        if state.calls >= state.config.calls:
            # A browser reads no response to a handshake, so the reason is an event.
            message = f"{state.calls} calls are going on, which is the most; try again later"
            error = ServiceError(message, status=429, code="too_many_calls")
            await session.send_error(error)
            await line.close(_TRY_AGAIN)
            metrics.ended("busy")
            return
        state.calls += 1
        try:
            metrics.ended(await Call(socket, line, session).run())
        finally:
            state.calls -= 1
    except NotReading:
        metrics.ended("left")


def _subprotocol(socket: WebSocket) -> str | None:
    """Return the protocol that a browser's client of OpenAI offers."""
    offered: list[str] = socket.scope.get("subprotocols", [])
    return "realtime" if "realtime" in offered else None

"""What the server says about itself: /health, /status, its voices and models."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hearth_kokoro.languages import LANGUAGES
from hearth_kokoro.phonemes.phonemizer import READERS
from hearth_kokoro.web.asked import MODELS, OPENAI_VOICES, check_model
from hearth_kokoro.web.state import ServerState
from hearth_serving.errors import ServiceError, error_response
from hearth_serving.metrics import memory_bytes

_OWNER = "hearth"


async def health(request: Request) -> Response:
    """Say whether it may be asked to speak."""
    if _state(request).loaded is None:
        return JSONResponse({"status": "starting"}, status_code=503)
    return JSONResponse({"status": "ok"})


async def status(request: Request) -> Response:
    """Say what speaks, how fast, and how much of it."""
    return JSONResponse(describe(_state(request)))


async def metrics(request: Request) -> Response:
    """Answer Prometheus."""
    return _state(request).metrics.page()


async def voices(request: Request) -> Response:
    """List the voices, which of them OpenAI's names mean, and what languages are not read."""
    try:
        loaded = _state(request).ready()
    except ServiceError as error:
        return error_response(error)
    names = loaded.voices.names
    listed = [{"id": name, "name": name, "language": LANGUAGES[name[0]]} for name in names]
    mapped = {name: voice for name, voice in OPENAI_VOICES.items() if voice in names}
    unread = {one: why for one, why in loaded.languages.items() if why not in READERS}
    return JSONResponse({"voices": listed, "openai_voices": mapped, "unread": unread})


async def models(_: Request) -> Response:
    """List the names of the one model."""
    return JSONResponse({"object": "list", "data": [_model(name) for name in MODELS]})


async def model(request: Request) -> Response:
    """Describe one of them."""
    name = request.path_params["name"]
    try:
        check_model(name)
    except ServiceError as error:
        return error_response(error)
    return JSONResponse(_model(name))


def describe(desk: ServerState) -> dict[str, Any]:
    """Return everything of /status; before it may speak, what is known already."""
    loaded = desk.loaded
    always = {
        "ready": loaded is not None,
        "live": desk.live,
        "memory_bytes": memory_bytes(),
        "uptime_s": round(time.monotonic() - desk.started, 1),
        # The same counts and times as in /metrics: as clients have them, encoder and all.
        **desk.metrics.describe(),
    }
    if loaded is None:
        return {**always, "active": 0, "waiting": 0}
    engine = loaded.engine
    return {
        "engine": engine.name,
        "provider": engine.provider,
        "model": engine.model,
        "model_sha256": engine.model_sha256,
        "threads": engine.threads,
        "choice_reason": loaded.reason,
        "voices": len(loaded.voices.names),
        "languages": dict(loaded.languages),
        **loaded.speaker.describe(),
        **always,
    }


def _state(request: Request) -> ServerState:
    desk: ServerState = request.app.state.server
    return desk


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}

"""What the server says about itself: /health, /status and its models."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hearth_serving.errors import ServiceError, error_response
from hearth_serving.metrics import memory_bytes
from hearth_whisper.live import vad
from hearth_whisper.web.asked import OPENAI_MODEL, check_model
from hearth_whisper.web.state import ServerState


async def health(request: Request) -> Response:
    """Say whether it may be asked; a model that rests comes back by itself."""
    if not _state(request).work.ready:
        return JSONResponse({"status": "starting"}, status_code=503)
    return JSONResponse({"status": "ok"})


async def status(request: Request) -> Response:
    """Say what listens, on what, how fast, and to how many."""
    return JSONResponse(describe(_state(request)))


async def metrics(request: Request) -> Response:
    """Answer Prometheus."""
    return _state(request).metrics.page()


async def models(request: Request) -> Response:
    """List the names of the one model."""
    names = _names(_state(request))
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def model(request: Request) -> Response:
    """Describe one of them."""
    asked, here = request.path_params["name"], _names(_state(request))
    try:
        check_model(asked, here[0])
    except ServiceError as error:
        return error_response(error)
    return JSONResponse(_model(asked))


def describe(desk: ServerState) -> dict[str, Any]:
    """Return everything of /status."""
    return {
        **desk.work.describe(),
        "ready": desk.work.ready,
        "failure": desk.work.failure,
        "vad": vad.figures(),
        "live": desk.live,
        "live_slots": desk.limits.live,
        "upload_bytes": desk.uploads.used_bytes,
        "memory_bytes": memory_bytes(),
        "uptime_s": round(time.monotonic() - desk.started, 1),
        # The same counts and times as in /metrics.
        **desk.metrics.describe(),
    }


def _names(desk: ServerState) -> list[str]:
    """Return the model's own name, once it is chosen, and OpenAI's."""
    chosen = desk.work.describe().get("model")
    return [*([str(chosen)] if chosen else []), OPENAI_MODEL]


def _state(request: Request) -> ServerState:
    desk: ServerState = request.app.state.server
    return desk


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hearth"}

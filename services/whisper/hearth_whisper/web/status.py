"""The server's health, status, metrics and models."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hearth_serving.errors import ServiceError, error_response
from hearth_serving.metrics import memory_bytes
from hearth_whisper.live import vad
from hearth_whisper.web.requests import OPENAI_MODEL, check_model
from hearth_whisper.web.state import ServerState


async def get_health(request: Request) -> Response:
    """Return whether requests are accepted; an unloaded model loads on demand."""
    if not _state(request).scheduler.ready:
        return JSONResponse({"status": "starting"}, status_code=503)
    return JSONResponse({"status": "ok"})


async def get_status(request: Request) -> Response:
    """Return the model, the device, the speed and the load."""
    return JSONResponse(describe(_state(request)))


async def get_metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return _state(request).metrics.page()


async def list_models(request: Request) -> Response:
    """List the names of the one model."""
    names = _names(_state(request))
    return JSONResponse({"object": "list", "data": [_model(name) for name in names]})


async def get_model(request: Request) -> Response:
    """Describe the model by one of its names."""
    name, names = request.path_params["name"], _names(_state(request))
    try:
        check_model(name, names[0])
    except ServiceError as error:
        return error_response(error)
    return JSONResponse(_model(name))


def describe(state: ServerState) -> dict[str, Any]:
    """Return everything of /status."""
    return {
        **state.scheduler.describe(),
        "ready": state.scheduler.ready,
        "failure": state.scheduler.failure,
        "vad": vad.describe(),
        "live": state.live,
        "live_slots": state.limits.live,
        "upload_bytes": state.uploads.used_bytes,
        "memory_bytes": memory_bytes(),
        "uptime_s": round(time.monotonic() - state.started, 1),
        # The same counts and times as in /metrics.
        **state.metrics.describe(),
    }


def _names(state: ServerState) -> list[str]:
    """Return the model's own name, once it is selected, and OpenAI's."""
    name = state.scheduler.describe().get("model")
    return [*([str(name)] if name else []), OPENAI_MODEL]


def _state(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hearth"}

"""The GET endpoints: /health, /status, /metrics, voices and models."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hearth_kokoro.phonemes.phonemizer import PHONEMIZERS
from hearth_kokoro.voices import LANGUAGES
from hearth_kokoro.web.requests import MODELS, OPENAI_VOICES, check_model
from hearth_kokoro.web.state import ServerState
from hearth_serving.errors import ServiceError, error_response
from hearth_serving.metrics import memory_bytes

_OWNER = "hearth"


async def health(request: Request) -> Response:
    """Return 200 when the server can speak, 503 before."""
    if _state(request).loaded is None:
        return JSONResponse({"status": "starting"}, status_code=503)
    return JSONResponse({"status": "ok"})


async def status(request: Request) -> Response:
    """Return the engine, its speed and the counts."""
    return JSONResponse(describe(_state(request)))


async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return _state(request).metrics.page()


async def voices(request: Request) -> Response:
    """List the voices, OpenAI's names for them, and the unsupported languages with reasons."""
    try:
        loaded = _state(request).ready()
    except ServiceError as error:
        return error_response(error)
    names = loaded.voices.names
    return JSONResponse(
        {
            "voices": [{"id": n, "name": n, "language": LANGUAGES[n[0]]} for n in names],
            "openai_voices": {n: voice for n, voice in OPENAI_VOICES.items() if voice in names},
            "unsupported_languages": {
                language: reason
                for language, reason in loaded.languages.items()
                if reason not in PHONEMIZERS
            },
        }
    )


async def models(_: Request) -> Response:
    """List the names of the one model."""
    return JSONResponse({"object": "list", "data": [_model(name) for name in MODELS]})


async def model(request: Request) -> Response:
    """Describe one model."""
    name = request.path_params["name"]
    try:
        check_model(name)
    except ServiceError as error:
        return error_response(error)
    return JSONResponse(_model(name))


def describe(state: ServerState) -> dict[str, Any]:
    """Return all fields of /status; fewer while the model loads."""
    loaded = state.loaded
    always = {
        "ready": loaded is not None,
        "live": state.live,
        "memory_bytes": memory_bytes(),
        "uptime_s": round(time.monotonic() - state.started, 1),
        # The same counts and times as in /metrics; they include the encoder.
        **state.metrics.describe(),
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
        **loaded.synthesizer.describe(),
        **always,
    }


def _state(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}

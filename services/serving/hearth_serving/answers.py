"""OpenAI's shape of an error, over HTTP and inside events, and what is logged of one."""

import logging
import traceback
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse

from hearth_serving.errors import EngineError, ServiceError

log = logging.getLogger(__name__)

BROKEN = "something broke here; the server's log says where"
"""All that a client hears of what is our own fault."""

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}


def error_body(error: ServiceError) -> dict[str, Any]:
    """Return OpenAI's shape of an error."""
    kind = _TYPES.get(error.status)
    if kind is None:
        kind = "invalid_request_error" if error.status < 500 else "server_error"
    # What broke in here is told to nobody outside: its words may be an engine's, or quote a text.
    message = BROKEN if error.status == 500 else str(error)
    what = {"message": message, "type": kind, "param": error.param, "code": error.code}
    return {"error": what}


def answer(error: ServiceError) -> JSONResponse:
    """Turn an error into HTTP."""
    headers = {"Cache-Control": "no-store"}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.code == "too_many_connections":
        headers["Connection"] = "close"
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error), status_code=error.status, headers=headers)


def unforeseen(error: Exception) -> ServiceError:
    """Log where something broke; its words, which may quote a text, only if an engine's."""
    frames = traceback.extract_tb(error.__traceback__)
    at = " <- ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))
    said = error if isinstance(error, EngineError) else type(error).__name__
    log.error("unforeseen %s at %s", said, at)
    return ServiceError(BROKEN, status=500)


def outcome_of(error: ServiceError) -> str:
    """Return how the metrics call this end of a request; the log hears what broke in here."""
    if isinstance(error.__cause__, Exception) and error.status == 500:
        unforeseen(error if isinstance(error, EngineError) else error.__cause__)
    if error.status == 429:
        return "busy"
    if error.status == 504:
        return "late"
    return "failed" if error.status >= 500 else "refused"


def shown(name: str) -> str:
    """Return what a stranger wrote, short and without control characters."""
    return ascii(name if len(name) <= 60 else name[:60] + "...")

"""Errors: one line for a person, OpenAI's shape for a program, and a log without texts."""

import logging
import traceback
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse

log = logging.getLogger(__name__)

BROKEN = "internal error; the server's log shows where"
"""All that a client reads about an internal error."""

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}
_MAX_NAME = 60
_MAX_LINE = 200


class ServiceError(Exception):
    """A problem with a request or a start: one line that says what to do instead."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        """Take the line, the HTTP status, the field of the request, and OpenAI's code."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s


class EngineError(ServiceError):
    """An error of a model's runtime; it sees numbers and never a text, so a log may quote it."""


def error_content(
    status: int, message: str, code: str | None, param: str | None = None
) -> dict[str, Any]:
    """Return OpenAI's shape of an error."""
    fallback = "invalid_request_error" if status < 500 else "server_error"
    kind = _TYPES.get(status, fallback)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_body(error: ServiceError) -> dict[str, Any]:
    """Return OpenAI's shape of an error of ours."""
    # The words of an internal error may be an engine's, or quote a text: no client reads them.
    message = BROKEN if error.status == 500 else str(error)
    return error_content(error.status, message, error.code, error.param)


def error_response(error: ServiceError) -> JSONResponse:
    """Return the HTTP response of an error."""
    headers = {"Cache-Control": "no-store"}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.code == "too_many_connections":
        headers["Connection"] = "close"
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error), status_code=error.status, headers=headers)


def log_unexpected(error: Exception) -> ServiceError:
    """Log where an unexpected error came from, and return an internal error for the client.

    The error's own message may quote a text; only an engine's is logged.
    """
    frames = traceback.extract_tb(error.__traceback__)
    at = " <- ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))
    description = error if isinstance(error, EngineError) else type(error).__name__
    log.error("unexpected %s at %s", description, at)
    return ServiceError(BROKEN, status=500)


def outcome_of(error: ServiceError) -> str:
    """Return the metrics' name for this end of a request; log the cause of an internal error."""
    if isinstance(error.__cause__, Exception) and error.status == 500:
        log_unexpected(error if isinstance(error, EngineError) else error.__cause__)
    return outcome_of_status(error.status)


def outcome_of_status(status: int) -> str:
    """Return the metrics' name for the end of a request with this error's HTTP status."""
    if status == 429:
        return "busy"
    if status == 504:
        return "late"
    return "failed" if status >= 500 else "refused"


def quoted(name: str) -> str:
    """Return a client's word in quotes, short and without control characters."""
    return ascii(name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "...")


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error, bounded; its type if it has no message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + "..."

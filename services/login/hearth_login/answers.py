"""Answers to programs: the shape of OpenAI's errors, which every client library can read."""

from starlette.responses import JSONResponse, Response

from .check import Verdict

_KINDS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    421: ("invalid_request_error", "unknown_site"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def respond(verdict: Verdict, host: str) -> Response:
    """Turn a verdict into HTTP; nothing of it may be kept by a cache."""
    headers = {"Cache-Control": "no-store"}
    if verdict.status == 204:
        # Also when there is none: of a header that is missing, Caddy 2.6's copy_headers hands on
        # the name of its own placeholder.
        headers["X-Hearth-Consumer"] = verdict.consumer or ""
        return Response(status_code=204, headers=headers)
    if verdict.location:
        headers["Location"] = verdict.location
        return Response(status_code=verdict.status, headers=headers)
    if verdict.status == 401:
        headers["WWW-Authenticate"] = f'Bearer realm="{host}"'
    if verdict.retry_s:
        headers["Retry-After"] = str(verdict.retry_s)
    kind, code = _KINDS[verdict.status]
    error = {"message": verdict.reason, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status_code=verdict.status, headers=headers)

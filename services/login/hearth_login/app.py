"""The login's web application, with errors in OpenAI's format, which every client can read."""

import logging

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .check import LoginState, Verdict, decide
from .edge import read_request
from .pages import PREFIX, sign_in, sign_in_page, sign_out

log = logging.getLogger("hearth_login")

_KINDS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    421: ("invalid_request_error", "unknown_site"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def make_app(state: LoginState) -> Starlette:
    """Return the application: /check and /health for Caddy, the rest for people."""
    app = Starlette(
        routes=[
            Route("/check", check),
            Route("/health", health),
            Route(PREFIX, sign_in_page, methods=["GET"]),
            Route(PREFIX, sign_in, methods=["POST"]),
            Route(PREFIX + "logout", sign_out, methods=["POST"]),
        ]
    )
    # Its redirect would contain the host that the client sent.
    app.router.redirect_slashes = False
    app.state.login = state
    return app


async def check(request: Request) -> Response:
    """Answer Caddy's forward_auth."""
    who = read_request(request)
    verdict = decide(request.app.state.login, who)
    # Neither the path nor a header is logged: either may contain a secret.
    log.info(
        "check site=%s consumer=%s client=%s status=%d",
        who.host if verdict.status != 421 else "-",
        verdict.consumer or "-",
        who.client,
        verdict.status,
    )
    return respond(verdict, who.host)


async def health(_: Request) -> Response:
    """Report that the login runs."""
    return JSONResponse({"status": "ok"})


def respond(verdict: Verdict, host: str) -> Response:
    """Return the HTTP response for a verdict, which no cache may store."""
    headers = {"Cache-Control": "no-store"}
    if verdict.status == 204:
        # Also without a consumer: for a missing header, Caddy 2.6's copy_headers passes on the name
        # of its own placeholder.
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

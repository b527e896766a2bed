"""The login's web application, with errors in OpenAI's format, which every client can read."""

import logging

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .check import LoginState, Verdict, admit_sign_in, decide, outcome_of
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
    """Return the application: forms for people, and the rest for this machine's programs."""
    app = Starlette(
        routes=[
            Route("/check", check),
            Route("/attempt", attempt),
            Route("/health", health),
            Route("/status", status),
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
    state: LoginState = request.app.state.login
    verdict = decide(state, who)
    state.requests[outcome_of(verdict.status)] += 1
    # Neither the path nor a header is logged: either may contain a secret.
    log.info(
        "check site=%s consumer=%s client=%s status=%d",
        who.host if verdict.status != 421 else "-",
        verdict.consumer or "-",
        who.client,
        verdict.status,
    )
    return respond(verdict, who.host)


async def attempt(request: Request) -> Response:
    """Answer Caddy's forward_auth for an attempt to sign in to a program with its own login."""
    who = read_request(request)
    state: LoginState = request.app.state.login
    verdict = admit_sign_in(state, who)
    if verdict.status == 429:
        state.requests["busy"] += 1
        log.info("attempt site=%s client=%s status=%d", who.host, who.client, verdict.status)
    return respond(verdict, who.host)


async def health(_: Request) -> Response:
    """Report that the login runs."""
    return JSONResponse({"status": "ok"})


async def status(request: Request) -> Response:
    """Return the counts; the reverse proxy does not publish this path."""
    state: LoginState = request.app.state.login
    return JSONResponse({"requests": dict(state.requests)})


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
    # Some programs' pages show `detail`.
    body = {"detail": verdict.reason, "error": error}
    return JSONResponse(body, status_code=verdict.status, headers=headers)

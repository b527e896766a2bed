"""The login's web application."""

import logging

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .answers import respond
from .check import decide
from .edge import asked
from .house import House
from .pages import sign_in, sign_in_page, sign_out
from .paths import PREFIX

log = logging.getLogger("hearth_login")


def make_app(house: House) -> Starlette:
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
    # Its redirect would name the host that the client made up.
    app.router.redirect_slashes = False
    app.state.house = house
    return app


async def check(request: Request) -> Response:
    """Answer Caddy's forward_auth."""
    house: House = request.app.state.house
    who = asked(request)
    verdict = decide(house, who)
    # Neither the path nor any header is in the log: either may hold somebody's secret.
    log.info(
        "check site=%s consumer=%s client=%s status=%d",
        who.host if verdict.status != 421 else "-",
        verdict.consumer or "-",
        who.client,
        verdict.status,
    )
    return respond(verdict, who.host)


async def health(_: Request) -> Response:
    """Say that the login answers."""
    return JSONResponse({"status": "ok"})

"""Sign in and out, on every site that uses the house's password."""

import asyncio
import hmac
import logging
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from .check import LoginState
from .credentials import digest
from .edge import EdgeRequest, read_request
from .sessions import COOKIE, LIFE_S
from .templates import form_page, session_page

log = logging.getLogger("hearth_login")

PREFIX = "/hearth-login/"

# Browsers drop tabs and line ends from an address and read "\" as "/", so "/\t/evil.example" and
# "/\evil.example" would leave the house.
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
LIMIT_BYTES = 8192
DEADLINE_S = 10.0

_FOREIGN = "This form was not sent from this page. Please try again here."
_STALE = "This page was open for a long time. Please try again."
_WRONG = "That is not the house password."


async def sign_in_page(request: Request) -> Response:
    """Show the form or the session; a browser with a session is sent to `next`, if given."""
    state, who = _of(request)
    if not state.guards(who.host, "house"):
        return _not_here(who)
    wanted = fields(request.url.query).get("next")
    if state.sessions.holder(who.host, who.cookie) is None:
        return form_page(who.host, state.sessions.form(who.host), local_path(wanted or "/"))
    if wanted is not None:
        return _go(local_path(wanted))
    return session_page(who.host, state.sessions.form(who.host))


async def sign_in(request: Request) -> Response:
    """Check the password and start a session."""
    state, who = _of(request)
    if not state.guards(who.host, "house"):
        return _not_here(who)
    form = await read_form(request)
    problem, status, retry_s = _problem(state, who, form)
    next_path = local_path(form.get("next", "/"))
    _note("sign-in", who, status)
    state.requests["not_signed_in" if problem else "signed_in"] += 1
    if problem:
        page = form_page(
            who.host, state.sessions.form(who.host), next_path, problem=problem, status=status
        )
        if retry_s:
            page.headers["Retry-After"] = str(retry_s)
        return page
    return _set_cookie(_go(next_path), state.sessions.start(who.host), LIFE_S)


async def sign_out(request: Request) -> Response:
    """End this session, or with `everywhere` all of them, and delete the cookie."""
    state, who = _of(request)
    if not state.guards(who.host, "house"):
        return _not_here(who)
    form = await read_form(request)
    session = state.sessions.holder(who.host, who.cookie)
    problem = _form_problem(state, who, form)
    if problem and session is not None:
        _note("sign-out", who, 403)
        return session_page(who.host, state.sessions.form(who.host), problem=problem, status=403)
    everywhere = "everywhere" in form
    if session is not None:
        if everywhere:
            state.sessions.end_all()
        else:
            state.sessions.end(session)
    _note("sign-out everywhere" if everywhere else "sign-out", who, 303)
    return _set_cookie(_go(PREFIX), "", 0)


def _problem(state: LoginState, who: EdgeRequest, form: Mapping[str, str]) -> tuple[str, int, int]:
    """Return what is wrong with an attempt, its status, and how long to wait; ("", 303, 0)."""
    problem = _form_problem(state, who, form)
    if problem:
        return problem, 403, 0
    # Before the comparison: after too many attempts even the correct password has to wait, or the
    # delay would not stop an attacker.
    retry_s = state.wrong_passwords.wait_s(who.client)
    if retry_s:
        return f"Too many tries. Please wait {retry_s} seconds.", 429, retry_s
    if not hmac.compare_digest(digest(form.get("password", "")), state.password):
        state.wrong_passwords.failed(who.client)
        return _WRONG, 403, 0
    return "", 303, 0


def _form_problem(state: LoginState, who: EdgeRequest, form: Mapping[str, str]) -> str:
    # Every current browser sends the origin of a form; a request without one is rejected.
    if not (who.same_origin or who.fetch_site == "same-origin"):
        return _FOREIGN
    return "" if state.sessions.form_good(who.host, form.get("token", "")) else _STALE


def _set_cookie(response: Response, value: str, life_s: int) -> Response:
    response.set_cookie(
        COOKIE, value, max_age=life_s, path="/", secure=True, httponly=True, samesite="lax"
    )
    return response


def _go(path: str) -> Response:
    return RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})


def _not_here(who: EdgeRequest) -> Response:
    _note("page", who, 404)
    return PlainTextResponse("There is no login of this name.\n", status_code=404)


def _of(request: Request) -> tuple[LoginState, EdgeRequest]:
    state: LoginState = request.app.state.login
    return state, read_request(request)


def _note(what: str, who: EdgeRequest, status: int) -> None:
    log.info("%s site=%s client=%s status=%d", what, who.host or "-", who.client, status)


async def read_form(request: Request, deadline_s: float = DEADLINE_S) -> Mapping[str, str]:
    """Return the fields of a small urlencoded form; none if it is late, large or something else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    body = bytearray()
    try:
        async with asyncio.timeout(deadline_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LIMIT_BYTES:
                    return {}
    except (TimeoutError, ClientDisconnect):
        return {}
    return fields(body.decode("utf-8", "replace"))


def fields(text: str) -> Mapping[str, str]:
    """Return the first value of each name in an urlencoded text."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=20, errors="replace")
    except ValueError:
        return {}
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def local_path(wanted: str) -> str:
    """Return `wanted` if it is a path of this host, else "/"."""
    if not wanted.startswith("/") or wanted.startswith("//") or len(wanted) > 2048:
        return "/"
    if _UNSAFE.search(wanted):
        return "/"
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    if parts.scheme or parts.netloc or parts.path.startswith(PREFIX):
        return "/"
    # A header is ASCII only; encoded characters stay as they are.
    return quote(wanted, safe="/%?&=#+,;:@!$'()*~[]-._", errors="replace")

"""Signing in and out, on every site that asks for the house's password."""

import hmac
import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from .edge import Asked, asked
from .forms import fields, read_form
from .house import House
from .html import form_page, session_page
from .keys import digest
from .paths import PREFIX, local_path
from .sessions import COOKIE, LIFE_S

log = logging.getLogger("hearth_login")

_FOREIGN = "This did not come from this page. Please try again here."
_STALE = "This page was open for a long time. Please try again."
_WRONG = "That is not the house password."


async def sign_in_page(request: Request) -> Response:
    """Show the form, or who is signed in already; with `next` such a one goes straight there."""
    house, who = _of(request)
    if not house.guards(who.host, "house"):
        return _not_here(who)
    wanted = fields(request.url.query).get("next")
    if house.sessions.holder(who.host, who.cookie) is None:
        return form_page(who.host, house.sessions.form(who.host), local_path(wanted or "/"))
    if wanted is not None:
        return _go(local_path(wanted))
    return session_page(who.host, house.sessions.form(who.host))


async def sign_in(request: Request) -> Response:
    """Check the password and begin a session."""
    house, who = _of(request)
    if not house.guards(who.host, "house"):
        return _not_here(who)
    form = await read_form(request)
    problem, status, retry_s = _problem(house, who, form)
    next_path = local_path(form.get("next", "/"))
    _note("sign-in", who, status)
    if problem:
        page = form_page(
            who.host, house.sessions.form(who.host), next_path, problem=problem, status=status
        )
        if retry_s:
            page.headers["Retry-After"] = str(retry_s)
        return page
    return _set_cookie(_go(next_path), house.sessions.begin(who.host), LIFE_S)


async def sign_out(request: Request) -> Response:
    """End this session, or with `everywhere` all of them, and take the cookie back."""
    house, who = _of(request)
    if not house.guards(who.host, "house"):
        return _not_here(who)
    form = await read_form(request)
    session = house.sessions.holder(who.host, who.cookie)
    problem = _form_problem(house, who, form)
    if problem and session is not None:
        _note("sign-out", who, 403)
        return session_page(who.host, house.sessions.form(who.host), problem=problem, status=403)
    everywhere = "everywhere" in form
    if session is not None:
        if everywhere:
            house.sessions.end_all()
        else:
            house.sessions.end(session)
    _note("sign-out everywhere" if everywhere else "sign-out", who, 303)
    return _set_cookie(_go(PREFIX), "", 0)


def _problem(house: House, who: Asked, form: Mapping[str, str]) -> tuple[str, int, int]:
    """Return what is wrong with an attempt, its status, and how long to wait; ("", 303, 0)."""
    problem = _form_problem(house, who, form)
    if problem:
        return problem, 403, 0
    # Before the comparison: after too many tries even the right password has to wait, or the wait
    # would not keep anybody from trying on.
    retry_s = house.wrong_passwords.wait_s(who.client)
    if retry_s:
        return f"Too many tries. Please wait {retry_s} seconds.", 429, retry_s
    if not hmac.compare_digest(digest(form.get("password", "")), house.password):
        house.wrong_passwords.failed(who.client)
        return _WRONG, 403, 0
    return "", 303, 0


def _form_problem(house: House, who: Asked, form: Mapping[str, str]) -> str:
    # Every browser of the last years says where a form was; one that does not is no browser.
    if not (who.same_origin or who.fetch_site == "same-origin"):
        return _FOREIGN
    return "" if house.sessions.form_good(who.host, form.get("token", "")) else _STALE


def _set_cookie(response: Response, value: str, life_s: int) -> Response:
    response.set_cookie(
        COOKIE, value, max_age=life_s, path="/", secure=True, httponly=True, samesite="lax"
    )
    return response


def _go(path: str) -> Response:
    return RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})


def _not_here(who: Asked) -> Response:
    _note("page", who, 404)
    return PlainTextResponse("There is no login of this name.\n", status_code=404)


def _of(request: Request) -> tuple[House, Asked]:
    house: House = request.app.state.house
    return house, asked(request)


def _note(what: str, who: Asked, status: int) -> None:
    log.info("%s site=%s client=%s status=%d", what, who.host or "-", who.client, status)

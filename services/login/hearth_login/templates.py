"""The pages' HTML: one style, no scripts, nothing external; every value is escaped."""

import base64
import hashlib
from html import escape
from pathlib import Path
from string import Template

from starlette.responses import HTMLResponse

_ASSETS = Path(__file__).parent / "assets"
_STYLE = (_ASSETS / "style.css").read_text(encoding="utf-8")
_PAGE, _FORM, _SESSION, _MESSAGE = (
    Template((_ASSETS / f"{name}.html").read_text(encoding="utf-8"))
    for name in ("page", "form", "session", "message")
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with it, browsers submit our own form with "Origin: null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def form_page(
    host: str, token: str, next_path: str, *, problem: str = "", status: int = 200
) -> HTMLResponse:
    """Return the page with the password form and the last error."""
    body = _FORM.substitute(
        host=escape(host),
        token=escape(token),
        next=escape(next_path),
        alert=_alert(problem),
        described="problem" if problem else "hint",
        invalid="true" if problem else "false",
    )
    return _page(f"Sign in to {host}", body, status)


def session_page(host: str, token: str, *, problem: str = "", status: int = 200) -> HTMLResponse:
    """Return the page for a signed-in browser."""
    body = _SESSION.substitute(host=escape(host), token=escape(token), alert=_alert(problem))
    return _page(f"Signed in to {host}", body, status)


def _alert(problem: str) -> str:
    return _MESSAGE.substitute(text=escape(problem)) if problem else ""


def _page(title: str, body: str, status: int) -> HTMLResponse:
    text = _PAGE.substitute(title=escape(title), style=_STYLE, body=body)
    return HTMLResponse(text, status_code=status, headers=_HEADERS)

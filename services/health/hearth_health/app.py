"""The web application: the page, its events, figures, buttons, findings and receipts."""

import asyncio
import base64
import contextlib
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from hearth_serving.page import file_route, page_files

from . import canary
from .config import Config
from .figures import SPANS, Figures, FiguresError, Prometheus
from .live import Live
from .plan import plan_file
from .rendering import Renderer
from .snapshot import SnapshotFile
from .trend import trend_file
from .verbs import VERBS, VerbError, ask
from .view import build_view, everything_up

FORM_BYTES = 4096
FORM_S = 10.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with it, browsers submit our own forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)
_TYPES = {".html": "text/html", ".json": "application/json"}


def make_app(config: Config, ends: Callable[[], bool] = lambda: False) -> Starlette:
    """Return the application; it has no secrets and writes nothing.

    Open pages are connections that stay; they are closed when `ends` returns true.
    """
    files, route = file_route(page_files(Path(__file__).parent / "page"))
    page = Page(config, files, ends)
    return Starlette(
        routes=[
            Route("/", page.document, methods=["GET"]),
            Route("/events", page.events, methods=["GET"]),
            Route("/figures.json", page.chart, methods=["GET"]),
            Route("/do", page.act, methods=["POST"]),
            Route("/findings/{name}", page.finding, methods=["GET"]),
            Route("/up", page.up, methods=["GET"]),
            Route("/health", _health),
            Route("/receipt", _to_receipt),
            Route("/receipt.json", _to_receipt_json),
            Route("/receipt/", page.receipt),
            Route("/receipt/{name}", page.receipt),
            route,
        ],
        lifespan=page.lifespan,
    )


class Page:
    """Everything that the page's endpoints share."""

    def __init__(self, config: Config, files: str, ends: Callable[[], bool]) -> None:
        self._config = config
        self._snapshot = SnapshotFile(config.snapshot)
        self._figures = Figures(Prometheus(config.prometheus))
        self._trend = trend_file(config.receipt / "trend.json")
        self._plan = plan_file(config.receipt / "plan.json")
        self._renderer = Renderer(files)
        self._live = Live(self._sections, ends)
        self._rendered: Mapping[str, str] = {}
        self._known: tuple[object, ...] = (None,) * 5

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Run the canary beside the page."""
        task = asyncio.create_task(canary.run(self._config))
        yield
        task.cancel()

    def _sections(self) -> Mapping[str, str]:
        self._figures.keep_fresh()
        snapshot, numbers = self._snapshot.read(), self._figures.numbers
        trend, plan = self._trend.read(), self._plan.read()
        known = (snapshot.data, snapshot.problem, numbers, trend, plan)
        # To render again what has not changed would cost more than everything else.
        if any(one is not before for one, before in zip(known, self._known, strict=True)):
            values = build_view(self._config, snapshot, numbers)
            self._rendered = self._renderer.sections(values | {"trend": trend, "plan": plan})
            self._known = known
        return self._rendered

    async def document(self, _: Request) -> Response:
        """Answer with the whole page as it is known now."""
        sections = {name: Markup(text) for name, text in self._live.sections().items()}  # noqa: S704
        text = self._renderer.document(
            "index.html", config=self._config, sections=sections, now=round(time.time())
        )
        return HTMLResponse(text, headers=_HEADERS)

    async def events(self, request: Request) -> Response:
        """Answer with the whole state, and then with each change."""
        if request.method == "HEAD":
            return Response(headers={"Cache-Control": "no-store"})
        return self._live.respond()

    async def chart(self, request: Request) -> Response:
        """Answer with the series of one span, or with why there are none."""
        span = request.query_params.get("span", "hour")
        if span not in SPANS:
            return JSONResponse({"problem": "this span is unknown"}, 400, headers=_HEADERS)
        try:
            return JSONResponse(await self._figures.chart(span), headers=_HEADERS)
        except FiguresError as error:
            # Not an error of this page, which browsers would report as one.
            return JSONResponse({"problem": str(error)}, headers=_HEADERS)

    async def act(self, request: Request) -> Response:
        """Do what a person's button says, and answer with what was done."""
        if problem := _not_a_person(request, self._config.site):
            return self._result(request, problem, 403)
        form = await _read_form(request)
        verb = form.get("verb", "")
        try:
            text = await ask(self._config.verbs, verb, form.get(VERBS.get(verb, "key"), ""))
        except VerbError as error:
            return self._result(request, str(error), 409)
        return self._result(request, text, 200)

    def _result(self, request: Request, text: str, status: int) -> Response:
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"ok": status == 200, "text": text}, status, headers=_HEADERS)
        page = self._renderer.document("result.html", good=status == 200, text=text)
        return HTMLResponse(page, status, headers=_HEADERS)

    async def finding(self, request: Request) -> Response:
        """Answer with what a kind of finding means, and where the house has it now."""
        name = request.path_params["name"]
        data = self._snapshot.read().data
        rows = data.get("findings")
        now = [one for one in rows if one.get("name") == name] if isinstance(rows, list) else []
        kind = self._config.findings.get(name) or (now[0] if now else None)
        text = self._renderer.document("finding.html", name=name, kind=kind, now=now)
        return HTMLResponse(text, 200 if kind else 404, headers=_HEADERS)

    async def up(self, _: Request) -> Response:
        """Answer whether the house is up, and nothing else: this needs no login."""
        good = everything_up(self._snapshot.read())
        return PlainTextResponse(
            "up\n" if good else "not up\n",
            200 if good else 503,
            headers={"Cache-Control": "no-store"},
        )

    async def receipt(self, request: Request) -> Response:
        """Answer with a file of the receipt's folder."""
        name = request.path_params.get("name", "index.html")
        media_type = _TYPES.get(Path(name).suffix)
        if media_type is None or not _FILE.fullmatch(name):
            return PlainTextResponse("This file does not exist.\n", 404)
        try:
            content = (self._config.receipt / name).read_bytes()
        except FileNotFoundError:
            text = "There is no receipt yet: run `sudo scripts/hearth verify`.\n"
            return PlainTextResponse(text, 404, headers=_HEADERS)
        except OSError as error:
            return PlainTextResponse(f"The receipt cannot be read: {error.strerror}.\n", 503)
        return Response(content, headers=_receipt_headers(content), media_type=media_type)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _to_receipt(_: Request) -> Response:
    return RedirectResponse("/receipt/", 308)


async def _to_receipt_json(_: Request) -> Response:
    # Its address before this page had receipts of their own folder.
    return RedirectResponse("/receipt/receipt.json", 308)


def _receipt_headers(content: bytes) -> dict[str, str]:
    """Return the headers of a receipt: its own style is allowed, and nothing else."""
    style = _STYLE.search(content)
    digest = base64.b64encode(hashlib.sha256(style[1]).digest()).decode() if style else ""
    source = f"'sha256-{digest}'" if digest else "'none'"
    policy = (
        f"default-src 'none'; style-src {source}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return {**_HEADERS, "Content-Security-Policy": policy}


def _not_a_person(request: Request, site: str) -> str:
    """Return why this request is not a person's click on this page; empty if it is.

    The login sets the consumer of every request; it is empty for a browser that signed in.
    """
    if request.headers.getlist("x-hearth-consumer") != [""]:
        return "buttons are for people who signed in to this page, not for keys of programs"
    origins = request.headers.getlist("origin")
    sent_from = request.headers.getlist("sec-fetch-site")
    if origins not in ([], [f"https://{site}"]) or sent_from not in ([], ["same-origin"]):
        return "another page sent this; press the button on this page"
    if not origins and not sent_from:
        return "your browser does not say which page sent this; use another one"
    return ""


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a small form; empty for one that is too long or too slow."""
    body = b""
    try:
        async with asyncio.timeout(FORM_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_BYTES:
                    return {}
    except (TimeoutError, ClientDisconnect):
        return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=10))

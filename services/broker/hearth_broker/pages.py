"""The pages where people approve: what is proposed, by whom, and what its agent had read.

They are for people who signed in to the house's site, through the reverse proxy on this machine.
An approval is a passkey's signature over the digest of the proposal, and nothing else.
"""

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from hearth import audit
from hearth.approvals import ApprovalError
from hearth.approvals.people import Passkey, People
from hearth.approvals.store import Entry, Store
from hearth.approvals.unit import execute_apart
from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits, read_body
from hearth_serving.page import file_route, page_files

from .config import Config
from .passkeys import Passkeys, credential_id
from .registry import AUDIT
from .view import Renderer

PREFIX = "/approvals/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "publickey-credentials-get=(self), publickey-credentials-create=(self)",
    "Cache-Control": "no-store",
}
_LIMITS = Limits(body_bytes=64 * 1024, body_s=10)
_SHOWN = 40
Start = Callable[[Path, str], None]
_Endpoint = Callable[[Request], Awaitable[Response]]


def routes(config: Config, start: Start = execute_apart) -> list[BaseRoute]:
    """Return the routes of the pages; `start` carries out what was approved."""
    files, file = file_route(page_files(Path(__file__).parent / "page"), f"{PREFIX}page/")
    log = config.state / AUDIT
    pages = Pages(config, Store(config.approvals, log), People(config.approvals), files, start)
    return [
        file,
        Route("/approvals", _to_list, methods=["GET"]),
        Route(PREFIX, pages.shown(pages.list), methods=["GET"]),
        Route(f"{PREFIX}enrol", pages.shown(pages.enrol_page), methods=["GET"]),
        Route(f"{PREFIX}enrol/options", pages.acted(pages.enrol_options), methods=["POST"]),
        Route(f"{PREFIX}enrol", pages.acted(pages.enrol), methods=["POST"]),
        Route(PREFIX + "{id}", pages.shown(pages.one), methods=["GET"]),
        Route(PREFIX + "{id}/state", pages.shown(pages.state), methods=["GET"]),
        Route(PREFIX + "{id}/approve", pages.acted(pages.approve), methods=["POST"]),
        Route(PREFIX + "{id}/refuse", pages.acted(pages.refuse), methods=["POST"]),
    ]


def resume(config: Config, start: Start = execute_apart) -> list[str]:
    """Take up what a power cut interrupted: it is taken back; return the IDs."""
    store = Store(config.approvals, config.state / AUDIT)
    found = store.interrupted()
    for id_ in found:
        start(config.project, id_)
    return found


class Pages:
    """Everything that the endpoints share."""

    def __init__(
        self, config: Config, store: Store, people: People, files: str, start: Start
    ) -> None:
        self._config, self._store, self._people, self._start = config, store, people, start
        self._passkeys, self._renderer = Passkeys(config.home), Renderer(files)

    def shown(self, endpoint: _Endpoint) -> _Endpoint:
        """Return an endpoint that only looks, for people alone."""

        async def answer(request: Request) -> Response:
            if problem := self._not_a_person(request):
                status = 404 if problem == _ELSEWHERE else 403
                return JSONResponse({"error": {"message": problem}}, status, headers=_HEADERS)
            try:
                return await endpoint(request)
            except ApprovalError as error:
                text = self._renderer.document("gone.html", text=str(error))
                return HTMLResponse(text, 404, headers=_HEADERS)

        return answer

    def acted(self, endpoint: _Endpoint) -> _Endpoint:
        """Return an endpoint that decides something: refusals are answered and audited."""

        async def answer(request: Request) -> Response:
            problem = self._not_a_person(request) or _not_our_page(request, self._config.home)
            try:
                if problem:
                    raise ApprovalError(problem)
                return await endpoint(request)
            except ApprovalError as error:
                self._audit("refused", request, str(error))
                status = 403 if problem else 409
                return JSONResponse({"text": str(error)}, status, headers=_HEADERS)

        return answer

    async def list(self, _: Request) -> Response:
        """Answer with what waits, and what became of the last ones."""
        entries = await asyncio.to_thread(self._store.entries)
        waiting = [one for one in entries if one.state in ("pending", "approved", "running")]
        past = [one for one in entries if one not in waiting][:_SHOWN]
        passkeys = self._people.passkeys()
        return self._html("list.html", waiting=waiting, past=past, passkeys=passkeys)

    async def one(self, request: Request) -> Response:
        """Answer with everything about one proposal."""
        entry = await self._entry(request)
        known = self._people.passkeys()
        options = self._passkeys.approval(entry.digest, known)
        chat = entry.proposal.who.chat_at(self._config.chats)
        return self._html(
            "one.html", entry=entry, passkeys=known, options=json.dumps(options), chat=chat
        )

    async def state(self, request: Request) -> Response:
        """Answer with the state of one proposal, for a page that waits."""
        entry = await self._entry(request)
        return JSONResponse({"state": entry.state, "text": entry.text}, headers=_HEADERS)

    async def approve(self, request: Request) -> Response:
        """Approve a proposal by the signature of a passkey, and start it."""
        entry, body = await self._entry(request), await _body(request)
        credential = _mapping(body, "credential")
        if entry.state != "pending":
            raise ApprovalError(f"this proposal is {entry.state}: it cannot be approved again")

        def verify(passkey: Passkey) -> int:
            return self._passkeys.approved(passkey, entry.digest, credential)

        # In one thread, because both wait for the disk; the digest is that of the bytes just read.
        def decide() -> Passkey:
            signer = self._people.counted(credential_id(credential), verify)
            by = f"{signer.name}, by passkey"
            self._store.decide(entry.proposal.id, "approved", entry.digest, by)
            self._start(self._config.project, entry.proposal.id)
            return signer

        signer = await asyncio.to_thread(decide)
        return JSONResponse({"text": f"approved by {signer.name}"}, headers=_HEADERS)

    async def refuse(self, request: Request) -> Response:
        """Refuse a proposal: that needs no passkey, for nothing is done."""
        entry = await self._entry(request)
        self._store.decide(entry.proposal.id, "refused", entry.digest, "on the house's page")
        return JSONResponse({"text": "refused"}, headers=_HEADERS)

    async def enrol_page(self, _: Request) -> Response:
        """Answer with the page on which a passkey is made."""
        return self._html("enrol.html")

    async def enrol_options(self, request: Request) -> Response:
        """Answer with what the browser needs, for a code that is valid."""
        code = self._people.invited(_text(await _body(request), "code"))
        options = self._passkeys.enrolment(code, self._people.passkeys())
        return JSONResponse({"options": options, "name": code.name}, headers=_HEADERS)

    async def enrol(self, request: Request) -> Response:
        """Keep a new passkey, and use up its code."""
        body = await _body(request)
        credential = _mapping(body, "credential")
        made = self._people.enrol(
            _text(body, "code"), lambda code: self._passkeys.enrolled(code, credential)
        )
        self._audit("enrolled", request, f"a passkey of {made.name}")
        return JSONResponse({"text": f"a passkey of {made.name} is enrolled"}, headers=_HEADERS)

    async def _entry(self, request: Request) -> Entry:
        return await asyncio.to_thread(self._store.read, request.path_params["id"])

    def _html(self, template: str, **values: Any) -> Response:
        return HTMLResponse(self._renderer.document(template, **values), headers=_HEADERS)

    def _audit(self, event: str, request: Request, text: str) -> None:
        peer = request.client.host if request.client else ""
        fields = {"path": request.url.path, "peer": peer, "text": text, "via": "page"}
        audit.record(event, fields, self._config.state / AUDIT)

    def _not_a_person(self, request: Request) -> str:
        """Return why this is no request of a person who signed in; empty if it is.

        The reverse proxy sets the header of the consumer, empty for a person; an instance of the
        house could set anything, but has an address of its own.
        """
        hosts = request.headers.getlist("host")
        if not _is_from_here(request) or hosts != [self._config.home]:
            return _ELSEWHERE
        if request.headers.getlist("x-hearth-consumer") != [""]:
            return "approvals are for people who signed in, not for keys of programs"
        return ""


_ELSEWHERE = "there is nothing at this address"


def _is_from_here(request: Request) -> bool:
    """Return whether this machine sent it: from loopback, or from the address that it called."""
    peer = request.client.host if request.client else ""
    called = (request.scope.get("server") or ("",))[0]
    try:
        return peer == called or ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False


def _not_our_page(request: Request, home: str) -> str:
    """Return why another page may have sent this; empty if this site's own did."""
    origins = request.headers.getlist("origin")
    sent_from = request.headers.getlist("sec-fetch-site")
    if origins != [f"https://{home}"] or sent_from not in ([], ["same-origin"]):
        return "another page sent this; use the button on the house's own page"
    return ""


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        found = json.loads(await read_body(request, _LIMITS))
    except (ServiceError, ValueError, RecursionError):
        raise ApprovalError("the request is not valid JSON of at most 64 KiB") from None
    if not isinstance(found, dict):
        raise ApprovalError("the request is a JSON object")
    return found


def _mapping(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = body.get(name)
    if not isinstance(found, dict):
        raise ApprovalError(f"the request has no {name}")
    return found


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or len(found) > 200:
        raise ApprovalError(f"the request has no {name}")
    return found


async def _to_list(_: Request) -> Response:
    return RedirectResponse(PREFIX, 308)

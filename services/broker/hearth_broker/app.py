"""The web application: MCP, POST and OpenAPI over one registry, and the pages of approvals."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hearth.catalogue.house import House
from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits, read_body

from .config import Config
from .mcp_server import make_manager
from .registry import REPORT, CallError, Registry
from .schemas import openapi
from .verbs import HOUSE, Call, Verb

# A proposal has whole files; nothing else is nearly as long.
BODY_BYTES = 2 * 1024 * 1024
LIMITS = Limits(body_bytes=BODY_BYTES, body_s=15, headers_s=10, connections=128)
# Verbs wait in threads: as many as calls at once, and those that are late.
_THREADS = 48
_NO_STORE = {"Cache-Control": "no-store"}


def create_app(
    config: Config, house: House, verbs: Sequence[Verb], routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Return the application; `routes` are pages that check for themselves who calls.

    Everything else needs a consumer's key, except /health and /status.

    Raises:
        OSError: the folder of the audit log cannot be written.
    """
    del house
    registry = Registry(config, verbs)
    manager = make_manager(registry, BODY_BYTES)
    endpoints = Endpoints(registry)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        executor = ThreadPoolExecutor(max_workers=_THREADS)
        asyncio.get_running_loop().set_default_executor(executor)
        async with manager.run():
            yield

    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/status", endpoints.status, methods=["GET"]),
            Route("/openapi.json", endpoints.document, methods=["GET"]),
            Route("/v1/verbs/{name}", endpoints.call, methods=["POST"]),
            Route("/v1/reads", endpoints.reads, methods=["POST"]),
            Route("/mcp", _Keyed(registry, manager.handle_request)),
            *routes,
        ],
        exception_handlers={
            CallError: _call_error,
            HTTPException: _http_error,
            Exception: _other_error,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.registry = registry
    return app


class Endpoints:
    """The verbs over plain HTTP."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def status(self, _: Request) -> Response:
        """Answer with the number of calls by outcome, and nothing else: this needs no key."""
        return JSONResponse({"requests": dict(self._registry.ended)}, headers=_NO_STORE)

    async def document(self, request: Request) -> Response:
        """Answer with the OpenAPI document of the verbs that the key opens."""
        consumer = _consumer(self._registry, request)
        return JSONResponse(openapi(self._registry.verbs_of(consumer)), headers=_NO_STORE)

    async def call(self, request: Request) -> Response:
        """Carry out one verb."""
        caller, name = _caller(self._registry, request), request.path_params["name"]
        async with self._registry.admitted(caller, name):
            arguments = await _json(self._registry, caller, name, request)
            reply = await self._registry.call(caller, name, arguments)
        content = {"text": reply.text, "data": reply.data, "origin": reply.origin}
        return JSONResponse(content, headers=_NO_STORE)

    async def reads(self, request: Request) -> Response:
        """Remember what a program of the house was given by others."""
        caller = _caller(self._registry, request)
        async with self._registry.admitted(caller, REPORT):
            self._registry.report(caller, await _json(self._registry, caller, REPORT, request))
        return JSONResponse({}, headers=_NO_STORE)


class _Keyed:
    """Lets only calls with a consumer's key through to the MCP server, within the limits."""

    def __init__(self, registry: Registry, app: ASGIApp) -> None:
        self._registry, self._app = registry, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        caller = _caller(self._registry, request)
        if scope["method"] != "POST":
            # A stream to the client, for which this server has no messages.
            raise HTTPException(405)
        async with self._registry.admitted(caller, "mcp"):
            body = await _body(self._registry, caller, "mcp", request)
            await self._serve(caller, body, request, send)

    async def _serve(self, caller: Call, body: bytes, request: Request, send: Send) -> None:
        request.state.caller = caller
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await request.receive()

        await self._app(request.scope, replay, send)


def _caller(registry: Registry, request: Request) -> Call:
    return registry.caller(_consumer(registry, request), request.headers)


def _consumer(registry: Registry, request: Request) -> str:
    return registry.consumer_of(request.headers.getlist("authorization"), _peer(request))


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""


async def _body(registry: Registry, caller: Call, name: str, request: Request) -> bytes:
    """Read a whole body; one that is too long or too slow is refused, and that is logged."""
    try:
        return await read_body(request, LIMITS)
    except ServiceError as error:
        refusal = CallError(400, "bad_body", str(error))
        if error.status == 413:
            refusal = CallError(413, "too_large", str(error))
        raise registry.refused(caller, name, refusal) from None


async def _json(registry: Registry, caller: Call, name: str, request: Request) -> object:
    body = await _body(registry, caller, name, request)
    try:
        found: object = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        refusal = CallError(400, "bad_body", "the body is a JSON object")
        raise registry.refused(caller, name, refusal) from None
    return found


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _error(status: int, text: str, origin: str = HOUSE) -> JSONResponse:
    headers = dict(_NO_STORE)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == 429:
        headers["Retry-After"] = "5"
    content = {"error": {"message": text, "origin": origin}}
    return JSONResponse(content, status, headers=headers)


async def _call_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, CallError)  # noqa: S101 - Starlette calls this for nothing else
    return _error(error.status, str(error), error.origin)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls this for nothing else
    try:
        request.app.state.registry.lost(request.url.path, _peer(request))
    except CallError as refused:
        return _error(refused.status, str(refused))
    texts = {405: "this address does not take that method"}
    status = error.status_code
    return _error(status, texts.get(status, "there is nothing at this address"))


async def _other_error(_: Request, error: Exception) -> Response:
    print(f"unexpected {type(error).__name__}", file=sys.stderr, flush=True)
    return _error(503, "the broker failed: its journal has the reason")

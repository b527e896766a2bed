"""The web application: `POST /fetch` with a URL returns the text behind it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hearth_fetcher.fetching import Fetcher
from hearth_fetcher.limits import Limits
from hearth_fetcher.reading import Reader
from hearth_serving import application
from hearth_serving.application import AppState, Fail
from hearth_serving.errors import ServiceError, error_response, log_unexpected, outcome_of
from hearth_serving.limits import read_body
from hearth_serving.metrics import Metrics

_RETRY_S = 5


@dataclass(slots=True, kw_only=True)
class FetcherState(AppState):
    """The running server: its limits, its figures, and its places for pages."""

    limits: Limits
    fetcher: Fetcher
    metrics: Metrics = field(
        default_factory=lambda: Metrics("hearth_fetcher", "Pages by how their fetching ended.")
    )
    places: asyncio.Semaphore = field(init=False)
    reader: Reader = field(init=False)
    inside: int = 0

    def __post_init__(self) -> None:
        """Make the places of the limits."""
        self.places = asyncio.Semaphore(self.limits.at_once)
        self.reader = Reader(asyncio.Semaphore(self.limits.readers))
        self.metrics.watch("pages", "Pages being fetched or waiting.", lambda: float(self.inside))

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place; raises ServiceError when too many wait already."""
        if self.inside >= self.limits.at_once + self.limits.waiting:
            message = "too many pages are being fetched; try again"
            raise ServiceError(message, status=503, code="busy", retry_after_s=_RETRY_S)
        self.inside += 1
        try:
            async with self.places:
                yield
        finally:
            self.inside -= 1


def make_app(state: FetcherState, fail: Fail) -> Starlette:
    """Return the application."""
    routes = [
        Route("/health", get_health),
        Route("/metrics", get_metrics),
        Route("/fetch", fetch, methods=["POST"]),
    ]
    return application.make_app(routes, state, load=_nothing, close=_nothing, fail=fail)


async def fetch(request: Request) -> Response:
    """Fetch one page, and count how it ended."""
    state = _state(request)
    try:
        response = await _fetch(request, state)
        outcome = "done"
    except Exception as error:
        known = error if isinstance(error, ServiceError) else log_unexpected(error)
        response, outcome = error_response(known), outcome_of(known)
    state.metrics.ended(outcome)
    return response


async def _fetch(request: Request, state: FetcherState) -> Response:
    url = _url(await read_body(request, state.limits))
    try:
        # The whole of it: a server that drips resets every shorter timeout.
        async with asyncio.timeout(state.limits.page_s), state.place():
            body = await state.fetcher.fetch(url)
            text, cut = await state.reader.read(body)
    except TimeoutError:
        message = f"the page did not arrive within {state.limits.page_s:g} s"
        raise ServiceError(message, status=504, code="too_slow") from None
    return JSONResponse(
        {
            "url": body.url,
            "status": body.status,
            "type": body.media_type,
            "text": text,
            "truncated": cut,
        }
    )


def _url(body: bytes) -> str:
    """Return the URL in a request; raises ServiceError for any other field."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or set(found) != {"url"} or not isinstance(found["url"], str):
        raise ServiceError('write {"url": "https://…"}', param="url", code="invalid_body")
    return found["url"]


async def get_health(_: Request) -> Response:
    """Return that requests are accepted; whether the internet is there is not asked."""
    return JSONResponse({"status": "ok"})


async def get_metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    return _state(request).metrics.page()


async def _nothing() -> None:
    pass


def _state(request: Request) -> FetcherState:
    state: FetcherState = request.app.state.server
    return state

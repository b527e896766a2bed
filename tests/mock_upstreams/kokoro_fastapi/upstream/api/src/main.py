"""The server: `uvicorn api.src.main:app`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .core.config import settings
from .inference.model_manager import manager
from .routers.openai_compatible import routes


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    """Load the model before anybody is answered."""
    await manager.initialize()
    yield


async def health_check(_request: Request) -> Response:
    """Say that it lives."""
    return JSONResponse({"status": "healthy"})


app = Starlette(
    routes=[
        Route("/health", health_check),
        *routes,
        Mount("/web", StaticFiles(directory=settings.web_dir, html=True)),
    ],
    lifespan=lifespan,
)

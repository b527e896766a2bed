"""Access control for upstream's server: a key for every path, and no changes over HTTP."""

import hmac
import re
from types import ModuleType
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# The health check needs no key.
HEALTH = ("GET", "/")
MODELS = ("GET", "/models")
ALLOWED = re.compile(
    r"GET /(?:models|pipelines|[^/]+/valves(?:/spec)?)"
    r"|POST /(?:chat/completions|[^/]+/filter/(?:inlet|outlet))"
)
CHANGES = re.compile(r"[A-Z]+ /(?:pipelines/(?:add|upload|delete|reload)|[^/]+/valves/update)")
READ_ONLY = (
    "Pipelines and their valves are set in the house's inventory; docs/pipelines.md explains how."
)


class AccessControl:
    """ASGI middleware in front of upstream's app, whose chat and valves require no key."""

    def __init__(self, app: ASGIApp, server: ModuleType, key: str) -> None:
        self.app = app
        self.server: Any = server
        self.key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, reject or forward one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix("/v1") or "/"
        method = str(scope["method"])
        response = self._rejection(method, path, Headers(scope=scope))
        if response is None and (method, path) == MODELS:
            response = JSONResponse(await self._models())
        await (response or self.app)(scope, receive, send)

    def _rejection(self, method: str, path: str, headers: Headers) -> JSONResponse | None:
        if (method, path) == HEALTH:
            return None
        given = headers.get("authorization", "").removeprefix("Bearer ").encode()
        if not hmac.compare_digest(given, self.key):
            return JSONResponse({"detail": "Invalid API key"}, 401)
        if CHANGES.fullmatch(f"{method} {path}"):
            return JSONResponse({"detail": READ_ONLY}, 403)
        if not ALLOWED.fullmatch(f"{method} {path}"):
            return JSONResponse({"detail": "Not found"}, 404)
        return None

    async def _models(self) -> dict[str, Any]:
        """List the pipelines as upstream does, with their descriptions for the chat."""
        listed: dict[str, Any] = await self.server.get_models(user="")
        pipelines = self.server.get_all_pipelines()
        for entry in listed["data"]:
            module = pipelines[entry["id"]].get("module", entry["id"])
            description = getattr(self.server.PIPELINE_MODULES[module], "description", "")
            entry["info"] = {"meta": {"description": str(description)}}
        return listed

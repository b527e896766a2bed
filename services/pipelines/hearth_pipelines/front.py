"""What may be asked of upstream's server: by whom, and nothing that would change it."""

import hmac
import re
from types import ModuleType
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# Without a key, for whoever looks whether it lives.
HEALTH = ("GET", "/")
MODELS = ("GET", "/models")
ASKED = re.compile(
    r"GET /(?:models|pipelines|[^/]+/valves(?:/spec)?)"
    r"|POST /(?:chat/completions|[^/]+/filter/(?:inlet|outlet))"
)
CHANGES = re.compile(r"[A-Z]+ /(?:pipelines/(?:add|upload|delete|reload)|[^/]+/valves/update)")
WHERE = (
    "Pipelines and their valves come from the house's inventory; docs/pipelines.md says where to "
    "write them."
)


class Front:
    """Stands before upstream's app, whose chat and valves ask nobody for a key."""

    def __init__(self, app: ASGIApp, server: ModuleType, key: str) -> None:
        """Let `key` in; `server` is upstream's module."""
        self.app = app
        self.server: Any = server
        self.key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or pass on one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"]).removeprefix("/v1") or "/"
        method = str(scope["method"])
        answer = self._refused(method, path, Headers(scope=scope))
        if answer is None and (method, path) == MODELS:
            answer = JSONResponse(await self._models())
        await (answer or self.app)(scope, receive, send)

    def _refused(self, method: str, path: str, headers: Headers) -> JSONResponse | None:
        if (method, path) == HEALTH:
            return None
        given = headers.get("authorization", "").removeprefix("Bearer ").encode()
        if not hmac.compare_digest(given, self.key):
            return JSONResponse({"detail": "Invalid API key"}, 401)
        if CHANGES.fullmatch(f"{method} {path}"):
            return JSONResponse({"detail": WHERE}, 403)
        if not ASKED.fullmatch(f"{method} {path}"):
            return JSONResponse({"detail": "Not found"}, 404)
        return None

    async def _models(self) -> dict[str, Any]:
        """List the pipelines as upstream does, with the words that people are shown."""
        listed: dict[str, Any] = await self.server.get_models(user="")
        pipelines = self.server.get_all_pipelines()
        for entry in listed["data"]:
            module = pipelines[entry["id"]].get("module", entry["id"])
            words = getattr(self.server.PIPELINE_MODULES[module], "description", "")
            entry["info"] = {"meta": {"description": str(words)}}
        return listed

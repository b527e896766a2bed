"""Run in LiteLLM's environment: its app without our middleware, called with a few keys."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

from hearth_gateway import __main__ as program
from hearth_gateway.custom_auth import GRANT


async def ask(app: Any, key: str, model: str, granted: frozenset[str] | None = None) -> int:
    """Return the status of one chat."""

    async def granting(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, GRANT: granted} if granted else scope, receive, send)

    transport = httpx.ASGITransport(app=granting)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.post("/v1/chat/completions", json=body, headers=headers)
    return answer.status_code


async def main(settings: Path, keys: dict[str, str]) -> dict[str, int]:
    """Return what LiteLLM answered to each caller."""
    gateway = program.build(settings / "etc" / "config.yaml", settings / "credentials")
    app: Any = gateway._app
    async with app.router.lifespan_context(app):
        own = gateway._config.own_key
        return {
            "wrong key": await ask(app, "wrong", "good"),
            "no key": await ask(app, "", "good"),
            "a consumer's key": await ask(app, keys["owner"], "good", frozenset({"good"})),
            "nothing granted": await ask(app, own, "good"),
            "another model granted": await ask(app, own, "good", frozenset({"slow"})),
            "granted": await ask(app, own, "good", frozenset({"good"})),
        }


if __name__ == "__main__":
    found = asyncio.run(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
    print(json.dumps(found), flush=True)
    os._exit(0)  # LiteLLM's threads would go on

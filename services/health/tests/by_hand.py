"""Serve the page from the sources with a made-up house, to look at it in a browser.

    cd services/health && PYTHONPATH=../serving python -m tests.by_hand FOLDER [STATE]

serves http://127.0.0.1:9182 and writes the snapshot again every 3 s; STATE is `well`, `hangs`,
`broken` (three findings), `stale` or `missing`. Buttons answer, and do nothing.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hearth_health.app import make_app
from hearth_health.config import load_config
from hearth_health.snapshot import boot_s

from .sample import plan, prometheus_answer, settings, snapshot, trend

PORT, FIGURES_PORT = 9182, 9190


async def figures(request: Request) -> JSONResponse:
    """Answer as Prometheus does."""
    query = request.query_params
    start, end, step = (float(query.get(key, 0)) for key in ("start", "end", "step"))
    result = prometheus_answer(request.path_params["path"], query["query"], start, end, step)
    return JSONResponse({"status": "success", "data": {"result": result}})


async def button(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as the watcher does."""
    asked = json.loads(await reader.readline())
    await asyncio.sleep(0.5)
    text = f"{asked['verb']} of {asked.get('key') or asked.get('model')}: done as asked."
    writer.write(json.dumps({"ok": True, "text": text}).encode() + b"\n")
    await writer.drain()
    writer.close()


def write(folder: Path, state: str) -> None:
    """Write the snapshot as the watcher does."""
    made: dict[str, Any] = snapshot(time.time(), boot_s(), broken=state in ("broken", "hangs"))
    if state == "hangs":
        made["findings"] = made["findings"][:1]
    if state == "stale":
        made |= {"made_boot_s": boot_s() - 100, "made": time.time() - 100}
    new = folder / "snapshot.new"
    new.write_text(json.dumps(made))
    new.replace(folder / "snapshot.json")


async def serve(folder: Path, state: str) -> None:
    """Serve until this is ended."""
    await asyncio.start_unix_server(button, str(folder / "verbs.sock"))
    apps = {
        PORT: make_app(load_config(folder / "health.json")),
        FIGURES_PORT: Starlette(routes=[Route("/api/v1/{path}", figures)]),
    }
    servers = [
        uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
        for port, app in apps.items()
    ]
    running = [asyncio.create_task(server.serve()) for server in servers]
    while not any(task.done() for task in running):
        if state != "missing":
            write(folder, state)
        await asyncio.sleep(3)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    (place / "verbs.sock").unlink(missing_ok=True)
    made_up = settings(place, prometheus=f"http://127.0.0.1:{FIGURES_PORT}")
    (place / "health.json").write_text(json.dumps(made_up))
    (place / "receipt").mkdir(exist_ok=True)
    (place / "receipt" / "trend.json").write_text(json.dumps(trend()))
    (place / "receipt" / "plan.json").write_text(json.dumps(plan()))
    asyncio.run(serve(place, sys.argv[2] if len(sys.argv) > 2 else "well"))

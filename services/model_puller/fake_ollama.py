"""Test helpers: a fake Ollama on loopback, and a puller whose clock the test controls."""

# ruff: noqa: D102, D103 - test helpers with descriptive names

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hearth_model_puller import ollama
from hearth_model_puller.environment import Environment
from hearth_model_puller.model_list import key_of
from hearth_model_puller.puller import Puller
from hearth_model_puller.state import ProgressFile, PullRecords

MB = 10**6
GB = 10**9


class BrokenStreamError(Exception):
    """Breaks a stream in the middle."""


@dataclass
class FakeOllama:
    """Ollama's tags, pull and delete over a registry in memory, with faults on demand."""

    registry: dict[str, tuple[str, int]] = field(default_factory=dict)
    disk: dict[str, tuple[str, int]] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    pulls: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    started_at: list[int] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/api/tags", self.tags),
                Route("/api/pull", self.pull, methods=["POST"]),
                Route("/api/delete", self.delete, methods=["DELETE"]),
            ]
        )

    async def tags(self, request: Request) -> Response:
        models = [
            {"name": key, "model": key, "digest": digest, "size": size}
            for key, (digest, size) in self.disk.items()
        ]
        return JSONResponse({"models": models})

    async def delete(self, request: Request) -> Response:
        key = key_of((await request.json())["model"])
        if self.disk.pop(key, None) is None:
            return JSONResponse({"error": f"model '{key}' not found"}, 404)
        self.deleted.append(key)
        return Response()

    async def pull(self, request: Request) -> Response:
        key = key_of((await request.json())["model"])
        self.pulls.append(key)
        return StreamingResponse(self._events(key), media_type="application/x-ndjson")

    async def _events(self, key: str) -> AsyncIterator[bytes]:
        pending = self.faults.get(key) or [""]
        fault = pending.pop(0)
        yield _line(status="pulling manifest")
        if key not in self.registry:
            yield _line(error="pull model manifest: file does not exist")
            return
        digest, size = self.registry[key]
        start = self.partial.get(key, 0)
        self.started_at.append(start)
        for quarter in range(4):
            done = max(start, size * (quarter + 1) // 4)
            yield _line(status="pulling aa", digest="sha256:aa", total=size, completed=done)
            self.partial[key] = done
            if fault == f"cut {quarter}":
                raise BrokenStreamError
            if fault == f"hold {quarter}":
                await self.hold.wait()
            while fault == f"drip {quarter}":
                yield _line(status="pulling aa", digest="sha256:aa", total=size, completed=done)
                await asyncio.sleep(0.02)
            if fault.startswith("error ") and quarter == 1:
                yield _line(error=fault.removeprefix("error "))
                return
        yield _line(status="verifying sha256 digest")
        self.disk[key] = (digest, size)
        self.partial.pop(key)
        if fault == "cut at the end":
            raise BrokenStreamError
        yield _line(status="success")


def _line(**event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


@pytest.fixture
async def fake() -> AsyncIterator[FakeOllama]:
    service = FakeOllama()
    config = uvicorn.Config(
        service.app(), host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn offers no event
        await asyncio.sleep(0.005)
    service.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield service
    service.hold.set()
    server.should_exit = server.force_exit = True
    await task


@dataclass
class Clock:
    """A clock that advances only during sleep."""

    now: float = 1000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class House:
    """The files of one house, and pullers that use them."""

    folder: Path
    client: httpx.AsyncClient
    clock: Clock
    free: int = 100 * GB
    memory: int = 16 * GB

    @property
    def models_file(self) -> Path:
        return self.folder / "models.json"

    def want(self, *models: dict[str, Any], first: tuple[str, ...] = (), **more: Any) -> None:
        text = json.dumps({"models": list(models), "first": list(first), **more})
        new = self.folder / "models.json.new"
        new.write_text(text)
        new.replace(self.models_file)

    def puller(self, *, read_only: bool = False) -> Puller:
        environment = Environment(
            free_bytes=lambda: self.free,
            memory_bytes=lambda: self.memory,
            monotonic=lambda: self.clock.now,
            wall=lambda: 1.8e9 + self.clock.now,
            sleep=self.clock.sleep,
            jitter=lambda: 1.0,
        )
        progress = ProgressFile(self.folder / "progress.json")
        progress.load()
        records = PullRecords(self.folder / "pulled.json")
        return Puller(self.client, self.models_file, progress, records, environment, read_only)

    async def run_steps(self, puller: Puller, steps: int = 1) -> float:
        """Run some steps as `run` would, without the pauses; return the last pause."""
        pause_s = 0.0
        for _ in range(steps):
            puller._reload()
            pause_s = await puller.step()
            puller.progress.write()
        return pause_s

    def progress(self) -> dict[str, dict[str, Any]]:
        models: dict[str, dict[str, Any]] = json.loads((self.folder / "progress.json").read_text())[
            "models"
        ]
        return models

    def pulled(self) -> dict[str, dict[str, Any]]:
        models: dict[str, dict[str, Any]] = json.loads((self.folder / "pulled.json").read_text())[
            "models"
        ]
        return models


@pytest.fixture
async def house(tmp_path: Path, fake: FakeOllama) -> AsyncIterator[House]:
    async with ollama.client_for(fake.url) as client:
        yield House(tmp_path, client, Clock())


def model(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "id": name, "download_bytes": size, "memory_bytes": size, **more}


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after ten seconds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the change happens in another process
            await asyncio.sleep(0.005)

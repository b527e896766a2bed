"""A broker with a few verbs, called as agents do."""

import asyncio
import contextlib
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

sys.path.insert(0, str(Path(__file__).parents[1]))
# What all servers share.
sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hearth.catalogue.house import House
from hearth_broker.app import create_app
from hearth_broker.config import Config
from hearth_broker.verbs import Arguments, Call, RefusedError, Reply, Verb
from tests.small_house import small_house

KEY, OTHER = "key-of-the-team", "key-of-a-coding-agent"


class Word(Arguments):
    word: str


async def _echo(call: Call, arguments: Word) -> Reply:
    return Reply(arguments.word, {"consumer": call.consumer, "run": call.run})


async def _page(_: Call, arguments: Word) -> Reply:
    return Reply(f"a page says {arguments.word}", origin="outside: https://example.org/")


async def _change(call: Call, _: Word) -> Reply:
    return Reply("proposed", [one.origin for one in call.reads])


async def _refuse(_: Call, arguments: Word) -> Reply:
    raise RefusedError(f"not {arguments.word}:\nwrite another one", "house")


def sample_verbs() -> list[Verb]:
    return [
        Verb("echo", "Say a word again.", Word, "free", _echo),
        Verb("page", "Read a page.", Word, "free", _page),
        Verb("change", "Change the house.", Word, "change", _change),
        Verb("refuse", "Never do it.", Word, "free", _refuse),
    ]


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.fixture
def house() -> House:
    return small_house([], [], {})


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config.model_validate(
        {
            "consumers": {
                "team": {
                    "sha256": digest(KEY),
                    "verbs": ["echo", "page", "change", "refuse"],
                    "inside": True,
                },
                "coding": {"sha256": digest(OTHER), "verbs": ["echo", "page", "change"]},
            },
            "project": str(tmp_path),
            "home": "home.lan",
            "state": str(tmp_path),
        }
    )


@contextlib.asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """Run an application and give its client; its start and end happen in one task."""
    started, ends = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            started.set()
            await ends.wait()

    task = asyncio.create_task(live())
    await started.wait()
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
        yield client
    ends.set()
    await task


@pytest.fixture
async def broker(config: Config, house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(create_app(config, house, sample_verbs())) as client:
        yield client


@pytest.fixture
def lines(config: Config) -> Callable[[], list[dict[str, Any]]]:
    """Return the lines of the audit log."""

    def read() -> list[dict[str, Any]]:
        log = config.state / "audit.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    return read


def key(text: str = KEY) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}

"""A page with a made-up house, requested as the reverse proxy does."""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
# The style that all pages share.
sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hearth_health.app import make_app
from hearth_health.config import Config, load_config
from hearth_health.snapshot import boot_s

from .sample import settings, snapshot

Write = Callable[..., dict[str, Any]]


def put(config: Config, name: str, document: Any) -> None:
    """Store a document, such as `trend`, where the page reads it."""
    config.receipt.mkdir(exist_ok=True)
    new = config.receipt / "new"
    new.write_text(document if isinstance(document, str) else json.dumps(document))
    new.replace(config.receipt / f"{name}.json")


async def section(page: httpx.AsyncClient, name: str) -> str:
    """Return a section of the page, as HTML."""
    text = (await page.get("/")).text
    found = re.search(rf'data-section="{name}">(.*?)</section>', text, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    file = tmp_path / "health.json"
    file.write_text(json.dumps(settings(tmp_path)))
    return load_config(file)


@pytest.fixture
def write(config: Config) -> Write:
    """Write a snapshot as of now, with some of its fields replaced, and return it."""

    def replace(*, broken: bool = False, **fields: Any) -> dict[str, Any]:
        made = {**snapshot(made_boot_s=boot_s(), broken=broken), **fields}
        new = config.snapshot.with_suffix(".new")
        new.write_text(json.dumps(made))
        new.replace(config.snapshot)
        return made

    return replace


@pytest.fixture
async def page(config: Config) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_app(config))
    async with httpx.AsyncClient(transport=transport, base_url="https://home.lan") as client:
        yield client

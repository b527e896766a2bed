"""Configure a trust page with a certificate, and request it as the reverse proxy does."""

import json
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
# The style that all pages share.
sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hearth_trust.app import make_app
from hearth_trust.config import Config, load_config


@pytest.fixture
def root() -> str:
    """Return a certificate; its contents do not matter, because it is served unchanged."""
    return ssl.DER_cert_to_PEM_cert(b"a certificate")


@pytest.fixture
def file(tmp_path: Path, root: str) -> Path:
    (tmp_path / "root.crt").write_text(root)
    settings = {
        "site": "trust.lan",
        "domain": "lan",
        "interface": "lo",
        "address": "127.0.0.1",
        "root": str(tmp_path / "root.crt"),
        "pages": ["chat.lan", "home.lan"],
    }
    path = tmp_path / "trust.json"
    path.write_text(json.dumps(settings))
    return path


@pytest.fixture
def config(file: Path) -> Config:
    return load_config(file)


@pytest.fixture
async def page(config: Config) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_app(config))
    async with httpx.AsyncClient(transport=transport, base_url="http://trust.lan") as client:
        yield client

"""A page is served with what all pages share, and both are of one version."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from hearth_serving import page
from hearth_serving.page import SHARED, page_files, page_routes

SERVICES = Path(__file__).parents[2]
DOCUMENT = '<link rel="icon" href="$files/flame.svg">\n$preloads\n<p>$greeting</p>\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A page of one document and one module."""
    made = tmp_path / "page"
    made.mkdir()
    (made / "index.html").write_text(DOCUMENT)
    (made / "main.mjs").write_text('import { EventReader } from "./events.mjs";\n')
    return made


def client_of(folder: Path) -> httpx.AsyncClient:
    app = Starlette(routes=list(page_routes(folder, {"greeting": "Hello."}, ())))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")


async def files_of(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the addresses that the document names, by file."""
    found = re.findall(r'href="([^"]+)"', (await client.get("/")).text)
    return {address.rpartition("/")[2]: address for address in found}


async def test_shared_files_are_beside_the_pages_own(folder: Path) -> None:
    async with client_of(folder) as client:
        files = await files_of(client)
        assert set(files) == {"flame.svg", "main.mjs", "events.mjs", "meter.mjs"}
        # A module asks for another by its name alone.
        assert len({address.rpartition("/")[0] for address in files.values()}) == 1
        for name, address in files.items():
            answer = await client.get(address)
            own = folder / name
            assert answer.content == (own if own.exists() else SHARED / name).read_bytes()
            assert "immutable" in answer.headers["cache-control"]
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        style = files["flame.svg"].replace("flame.svg", "common.css")
        assert (await client.get(style)).headers["content-type"] == "text/css; charset=utf-8"


async def test_a_new_shared_file_is_a_new_version(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(folder) as client:
        old = await files_of(client)
    shared = tmp_path / "shared"
    shared.mkdir()
    for file in SHARED.iterdir():
        (shared / file.name).write_bytes(file.read_bytes() + b"\n")
    monkeypatch.setattr(page, "SHARED", shared)
    async with client_of(folder) as client:
        new = await files_of(client)
        assert set(new) == set(old)
        assert not set(new.values()) & set(old.values())
        assert (await client.get(old["main.mjs"])).status_code == 404


def test_no_page_file_has_the_name_of_a_shared_one(folder: Path) -> None:
    (folder / "meter.mjs").write_text("")
    with pytest.raises(ValueError, match=r"meter\.mjs is shared by all pages") as caught:
        page_files(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("server", ["kokoro", "whisper"])
def test_an_installed_server_contains_the_shared_files(server: str) -> None:
    project = tomllib.loads((SERVICES / server / "pyproject.toml").read_text())
    brought = project["tool"]["setuptools"]["package-data"]["hearth_serving"]
    names = [f"page/{file.name}" for file in SHARED.iterdir()]
    assert names
    assert [name for name in names if not any(fnmatch(name, one) for one in brought)] == []

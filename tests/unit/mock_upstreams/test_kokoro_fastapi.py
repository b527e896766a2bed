"""Upstream in miniature: packed and served as GitHub does it, and of upstream's shape."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml

from hearth.sources import Source
from hearth.sources.download import fetch
from hearth_kokoro_patch import plan
from tests.mock_upstreams import kokoro_fastapi, names
from tests.mock_upstreams.faults import Memory
from tests.mock_upstreams.hosts import Shelf, application
from tests.mock_upstreams.kokoro_fastapi.archive import packed

ROOT = Path(__file__).parents[3]
LOCK = yaml.safe_load((ROOT / "inventory/sources.lock.yml").read_text())
ADDRESS: str = LOCK["sources"]["kokoro_fastapi"]["url"]


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    tags = {(kokoro_fastapi.REPOSITORY, kokoro_fastapi.TAG): kokoro_fastapi.prepare(tmp_path)}
    shelf = Shelf({}, tmp_path, "http://inner", {}, tags)
    async with (
        httpx.AsyncClient() as inner,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(application(shelf, Memory(), inner))
        ) as client,
    ):
        yield client


async def test_the_archive_host_sends_no_content_length(
    far: httpx.AsyncClient,
) -> None:
    answer = await far.get(ADDRESS)
    place = httpx.URL(answer.headers["location"])
    assert (answer.status_code, place.host) == (302, names.GITHUB_ARCHIVES)
    archive = await far.get(place)
    assert archive.content == packed()
    assert "content-length" not in archive.headers
    assert (await far.get(ADDRESS.replace("v0.8.0", "v0.8"))).status_code == 302
    gone = (await far.get(ADDRESS.replace("v0.8.0", "v0.8"))).headers["location"]
    assert (await far.get(gone)).status_code == 404
    assert (await far.get(ADDRESS.replace(".tar.gz", ".rar"))).status_code == 404


def test_the_archive_is_reproducible_and_has_one_top_folder(tmp_path: Path) -> None:
    assert packed() == packed()
    assert kokoro_fastapi.prepare(tmp_path) == kokoro_fastapi.prepare(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(packed())) as tar:
        assert {name.partition("/")[0] for name in tar.getnames()} == {"Kokoro-FastAPI-0.8.0"}
        # As of GitHub, a comment says which commit it is.
        assert len(tar.pax_headers["comment"]) == 40


def test_a_mirror_of_it_can_be_a_file(tmp_path: Path) -> None:
    archive = kokoro_fastapi.prepare(tmp_path / "cache")
    source = Source("kokoro_fastapi", "0.8.0", ADDRESS)
    fetched = fetch(source, tmp_path / "downloads", {ADDRESS: str(archive)}, None)
    assert fetched.path == archive


def test_the_patch_knows_its_shape() -> None:
    done = plan(kokoro_fastapi.UPSTREAM)
    assert done.files == ("api/src/inference/kokoro_v1.py", "api/src/services/tts_service.py")
    # As upstream's of this release, the player asks MediaSource by itself.
    assert done.unchecked == ()
    assert "split_pattern" in done.diff()


def test_its_requirements_are_a_subset_of_the_real_ones() -> None:
    real = locked(ROOT / "requirements/kokoro_fastapi.txt")
    ours = locked(ROOT / "tests/mock_upstreams/kokoro_fastapi/requirements.txt")
    assert {"starlette", "uvicorn", "numpy"} <= ours.keys()
    assert ours.items() <= real.items()


def locked(path: Path) -> dict[str, frozenset[str]]:
    """Return the versions of each package; a name may have one for each Python."""
    found: dict[str, frozenset[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==([^\s;]+)", path.read_text(), re.MULTILINE):
        found[name] = found.get(name, frozenset()) | {version}
    return found

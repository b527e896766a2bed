"""The mock upstreams answers as the real servers do, and fails only as configured."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.mock_upstreams import hugging_face, names, registry
from tests.mock_upstreams.faults import Fault, Memory
from tests.mock_upstreams.hosts import Shelf, application
from tests.mock_upstreams.server import Recorder, control

CONTENT = bytes(range(256)) * 64
NAME = hashlib.sha256(CONTENT).hexdigest()
RELEASE = "https://github.com/ollama/ollama/releases/download/v1/ollama.tar.zst"
BLOB = f"https://registry.ollama.ai/v2/library/m/blobs/sha256:{NAME}"

WEIGHTS = "https://huggingface.co/me/voice/resolve/abc"


@dataclass(slots=True)
class FarSide:
    memory: Memory
    client: httpx.AsyncClient
    control: httpx.AsyncClient


def docker_registry(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith(("/manifests/latest", f"/blobs/sha256:{NAME}")):
        headers = {"Content-Type": registry.MANIFEST_TYPE}
        return httpx.Response(200, headers=headers, content=b'{"layers": []}')
    return httpx.Response(404, json={"errors": [{"code": "MANIFEST_UNKNOWN"}]})


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[FarSide]:
    archive = tmp_path / "archive"
    archive.write_bytes(CONTENT)
    blob = registry.blob_path(tmp_path, f"sha256:{NAME}")
    blob.parent.mkdir(parents=True)
    blob.write_bytes(CONTENT)
    memory = Memory()
    inner = httpx.AsyncClient(transport=httpx.MockTransport(docker_registry))
    large = tmp_path / "weights.pth"
    with large.open("wb") as file:
        file.truncate(hugging_face.LARGE_BYTES)
    shelf = Shelf(
        {("ollama/ollama", "v1", "ollama.tar.zst"): archive},
        tmp_path,
        "http://inner",
        {("me/voice", "abc", "weights.pth"): large, ("me/voice", "abc", "config.json"): archive},
    )
    played = Recorder(application(shelf, memory, inner), memory)
    async with (
        inner,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(played, raise_app_exceptions=False)
        ) as client,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(control(memory)), base_url="http://127.0.0.1"
        ) as controlling,
    ):
        yield FarSide(memory, client, controlling)


async def test_a_release_redirects_to_the_asset_host(far: FarSide) -> None:
    answer = await far.client.get(RELEASE)
    assert answer.status_code == 302
    place = httpx.URL(answer.headers["location"])
    assert place.host == names.GITHUB_ASSETS
    assert (await far.client.get(place)).content == CONTENT
    assert (await far.client.get(place.copy_with(query=None))).status_code == 403


async def test_unknown_release_is_not_found(far: FarSide) -> None:
    assert (await far.client.get(RELEASE.replace("v1", "v2"))).status_code == 404


async def test_latest_redirects_to_the_newest_tag(far: FarSide) -> None:
    answer = await far.client.get("https://github.com/ollama/ollama/releases/latest")
    assert answer.headers["location"].endswith("/releases/tag/v1")


async def test_a_blob_has_its_size_and_redirects_to_another_host(far: FarSide) -> None:
    # Ollama refuses a foreign redirect of HEAD and demands a redirect of GET.
    assert (await far.client.head(BLOB)).status_code == 200
    answer = await far.client.get(BLOB)
    assert answer.status_code == 307
    place = httpx.URL(answer.headers["location"])
    assert place.host == names.REGISTRY_BLOBS
    assert (await far.client.get(place)).content == CONTENT
    assert (await far.client.get(place.copy_with(query=None))).status_code == 400


async def test_a_large_file_of_hugging_face_redirects_to_another_host(far: FarSide) -> None:
    answer = await far.client.get(f"{WEIGHTS}/weights.pth")
    assert (answer.status_code, answer.headers["x-repo-commit"]) == (302, "abc")
    place = httpx.URL(answer.headers["location"])
    assert place.host == names.HUGGING_FACE_FILES
    assert len((await far.client.get(place)).content) == hugging_face.LARGE_BYTES
    part = await far.client.get(place, headers={"Range": "bytes=10-"})
    assert (part.status_code, len(part.content)) == (206, hugging_face.LARGE_BYTES - 10)
    assert (await far.client.get(place.copy_with(query=None))).status_code == 403


async def test_a_small_file_of_hugging_face_is_served_by_the_site(far: FarSide) -> None:
    answer = await far.client.get(f"{WEIGHTS}/config.json")
    assert answer.status_code == 307
    place = httpx.URL(f"{WEIGHTS}/config.json").join(answer.headers["location"])
    assert place.host == names.HUGGING_FACE
    assert (await far.client.get(place)).content == CONTENT
    missing = await far.client.get(f"{WEIGHTS.replace('abc', 'main')}/config.json")
    assert missing.status_code == 404


async def test_unknown_model_has_the_registrys_own_error(far: FarSide) -> None:
    answer = await far.client.get("https://registry.ollama.ai/v2/library/nix/manifests/nix")
    assert answer.status_code == 404
    assert "MANIFEST_UNKNOWN" in answer.text


async def test_an_unknown_host_is_not_mocked(far: FarSide) -> None:
    assert (await far.client.get("https://example.org/v2/")).status_code == 404


@pytest.mark.parametrize(
    ("part", "status", "content"),
    [
        ("bytes=10-19", 206, CONTENT[10:20]),
        ("bytes=16000-", 206, CONTENT[16000:]),
        ("bytes=-10", 206, CONTENT[-10:]),
        ("bytes=16384-", 416, b""),
        ("lines=1-2", 416, b""),
    ],
)
async def test_ranges(far: FarSide, part: str, status: int, content: bytes) -> None:
    place = (await far.client.get(RELEASE)).headers["location"]
    answer = await far.client.get(place, headers={"Range": part})
    assert (answer.status_code, answer.content) == (status, content)


async def test_a_range_of_another_version_is_not_served(far: FarSide) -> None:
    place = (await far.client.get(RELEASE)).headers["location"]
    headers = {"Range": "bytes=10-19", "If-Range": '"other"'}
    answer = await far.client.get(place, headers=headers)
    assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_broken_flips_one_byte_wherever_the_range_starts(far: FarSide) -> None:
    far.memory.faults.append(Fault(kind="broken", host=names.GITHUB_ASSETS, after_bytes=15))
    place = (await far.client.get(RELEASE)).headers["location"]
    whole = (await far.client.get(place)).content
    assert [i for i, byte in enumerate(whole) if byte != CONTENT[i]] == [15]
    part = (await far.client.get(place, headers={"Range": "bytes=10-19"})).content
    assert part[5] != CONTENT[15]


async def test_cut_announces_everything_and_sends_a_part(far: FarSide) -> None:
    far.memory.faults.append(Fault(kind="cut", after_bytes=100, times=1))
    place = (await far.client.get(RELEASE)).headers["location"]
    short = await far.client.get(place)
    assert short.headers["content-length"] == str(len(CONTENT))
    assert short.content == CONTENT[:100]
    assert (await far.client.get(place)).content == CONTENT


async def test_broken_manifest_is_the_same_with_another_digest(far: FarSide) -> None:
    place = "https://registry.ollama.ai/v2/library/m/manifests/latest"
    true = await far.client.get(place)
    far.memory.faults.append(Fault(kind="broken", times=1))
    other = await far.client.get(place)
    assert other.json() == true.json()
    assert other.content != true.content


async def test_control_counts_down_and_resets(far: FarSide) -> None:
    fault = {"kind": "status", "status": 503, "times": 2, "host": names.GITHUB}
    assert (await far.control.post("/faults", json=fault)).is_success
    got = [(await far.client.get(RELEASE)).status_code for _ in range(3)]
    assert got == [503, 503, 302]
    assert (await far.control.delete("/faults")).json() == []
    requested = (await far.control.get("/requests")).json()
    assert [entry["status"] for entry in requested] == [503, 503, 302]
    await far.control.delete("/requests")
    assert (await far.control.get("/requests")).json() == []


async def test_control_rejects_an_unknown_fault(far: FarSide) -> None:
    answer = await far.control.post("/faults", json={"kind": "rain"})
    assert answer.status_code == 422
    assert "kind" in answer.text


async def test_the_example_site_has_pages_that_misbehave(far: FarSide) -> None:
    site = f"https://{names.EXAMPLE_SITE}"
    page = await far.client.get(f"{site}/openssh")
    assert "<td>CVE-2024-6387<td>8.5p1 to 9.7p1<td>9.8<td>" in page.text
    assert (await far.client.get(f"{site}/openssh.pdf")).content.startswith(b"%PDF-1.4")
    away = await far.client.get(f"{site}/to/mapped")
    # Not quoted, as Starlette would.
    assert away.headers["location"] == "http://[::ffff:10.140.30.14]/"
    assert (await far.client.get(f"{site}/to/nowhere")).status_code == 404
    assert len((await far.client.get(f"{site}/large")).content) > 15 * 1024 * 1024

"""The header of a registry's model, read by range and within its time."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from hearth.plan import PlanError
from hearth.sources.model_header import registry_header
from tests.unit.plan import sparse

LAYER = "application/vnd.ollama.image.model"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sparse") / "x.gguf"
    sparse.write(path, sparse.MODELS["qwen3-4b"])
    with path.open("rb") as stream:
        return stream.read(100_000)


class Registry:
    """A registry with one model."""

    def __init__(self, start: bytes, size: int = 2_400_000_000) -> None:
        self.start, self.size = start, size
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if "/manifests/" in request.url.path:
            layers = [
                {"mediaType": "application/vnd.ollama.image.template", "digest": "x", "size": 1},
                {"mediaType": LAYER, "digest": "sha256:abc", "size": self.size},
            ]
            return httpx.Response(200, json={"layers": layers})
        if request.url.host == "registry.ollama.ai":
            return httpx.Response(307, headers={"Location": "https://storage.example/blob"})
        return httpx.Response(206, content=self.start)


def test_only_the_start_of_the_model_is_read(start: bytes) -> None:
    registry = Registry(start)
    header = registry_header("qwen3:4b", {}, httpx.MockTransport(registry))
    assert header.shape.layers == 36
    assert [request.url.path for request in registry.seen] == [
        "/v2/library/qwen3/manifests/4b",
        "/v2/library/qwen3/blobs/sha256:abc",
        "/blob",
    ]
    assert registry.seen[-1].headers["Range"] == "bytes=0-25165823"


def test_a_header_that_lies_about_its_size_is_rejected(start: bytes) -> None:
    with pytest.raises(PlanError, match="download it again"):
        registry_header("qwen3:4b", {}, httpx.MockTransport(Registry(start, size=1000)))


def answer(status: int, content: bytes = b"") -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(status, content=content))


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


async def silent(request: httpx.Request) -> httpx.Response:
    await asyncio.sleep(60)
    return httpx.Response(200)


@pytest.mark.parametrize(
    ("transport", "what"),
    [
        (answer(404), "HTTP 404"),
        (answer(200, b"<html>"), "its manifest is not one of a model"),
        (answer(200, json.dumps({"layers": []}).encode()), "its manifest is not one of a model"),
        (httpx.MockTransport(away), "ConnectError"),
        (httpx.MockTransport(silent), "no answer within 0.2 s"),
    ],
)
def test_a_registry_that_is_away_is_one_line(
    transport: httpx.AsyncBaseTransport, what: str
) -> None:
    with pytest.raises(PlanError, match=r"^nobody/none: the registry's header") as caught:
        registry_header("nobody/none", {}, transport, within_s=0.2)
    assert what in str(caught.value)


def test_a_name_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="write a registry name"):
        registry_header("a b", {})

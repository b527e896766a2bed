"""The responses of each simulated host: paths, redirects and headers of the real ones."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Host, Route, Router

from tests.mock_upstreams import example_site, files, names, registry
from tests.mock_upstreams.faults import Memory
from tests.mock_upstreams.hugging_face import HuggingFace

REGISTRY_S = 10.0
PAGES = Path(__file__).parent / "pages"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
PASSED_ON = ("content-type", "content-length", "docker-content-digest", "etag")


@dataclass(frozen=True, slots=True)
class Shelf:
    """The files to download, and the registry.

    Releases by (repository, tag, file); files of Hugging Face by (repository, revision, file);
    archives of tags by (repository, tag).
    """

    releases: dict[tuple[str, str, str], Path]
    registry_storage: Path
    registry_address: str
    hugging_face: dict[tuple[str, str, str], Path] = field(default_factory=dict)
    tags: dict[tuple[str, str], Path] = field(default_factory=dict)


def application(shelf: Shelf, memory: Memory, client: httpx.AsyncClient) -> Starlette:
    """Return the application that answers for every name in `names.ALL`."""
    registry_routes = Registry(shelf, memory, client)
    github = Github(shelf, memory)
    tags = Tags(shelf.tags, memory)
    hugging_face = HuggingFace(shelf.hugging_face, memory)
    reading = ["GET", "HEAD"]
    release = "/{owner}/{repository}/releases/"
    cached = "/{owner}/{repository}/{revision}/{file:path}"
    resolve = "/{owner}/{repository}/resolve/{revision}/{file:path}"
    blobs = "/ollama/docker/registry/v2/blobs/sha256/{start}/{name}/data"
    hosts = {
        names.GITHUB: [
            Route(release + "download/{tag}/{file}", github.redirect, methods=reading),
            Route(release + "latest", github.latest, methods=reading),
            Route("/{owner}/{repository}/archive/refs/tags/{file}", tags.redirect, methods=reading),
        ],
        names.GITHUB_ARCHIVES: [
            Route("/{owner}/{repository}/tar.gz/refs/tags/{tag}", tags.archive, methods=reading)
        ],
        names.GITHUB_ASSETS: [
            Route("/github-production-release-asset/{owner}/{key}", github.asset, methods=reading)
        ],
        names.REGISTRY: [
            Route("/v2/", registry_routes.hello, methods=reading),
            Route("/v2/{name:path}/manifests/{tag}", registry_routes.manifest, methods=reading),
            Route("/v2/{name:path}/blobs/{digest}", registry_routes.blob, methods=reading),
        ],
        names.REGISTRY_BLOBS: [Route(blobs, registry_routes.data, methods=reading)],
        names.HUGGING_FACE: [
            Route(resolve, hugging_face.resolve, methods=reading),
            Route("/api/resolve-cache/models" + cached, hugging_face.cached, methods=reading),
        ],
        names.HUGGING_FACE_FILES: [
            Route("/xet-bridge-us/{key}/{digest}", hugging_face.stored, methods=reading)
        ],
        names.EXAMPLE_SITE: example_site.routes(),
        **{name: [Route("/security.html", _page, methods=reading)] for name in names.PAGES},
    }
    return Starlette(routes=[Host(name, app=Router(routes)) for name, routes in hosts.items()])


async def _page(request: Request) -> Response:
    """Return the one page of a site, for agents that read pages."""
    return FileResponse(PAGES / f"{request.url.hostname}.html", media_type="text/html")


@dataclass(frozen=True, slots=True)
class Github:
    """Releases: the file's URL redirects to a signed one at the asset host."""

    shelf: Shelf
    memory: Memory

    async def redirect(self, request: Request) -> Response:
        """Redirect to the asset, or return 404 as GitHub does."""
        path = request.path_params
        key = (f"{path['owner']}/{path['repository']}", path["tag"], path["file"])
        if key not in self.shelf.releases:
            return PlainTextResponse("Not Found", status_code=404)
        filename = quote(f"attachment; filename={key[2]}", safe="")
        asset = f"/github-production-release-asset/{_number(key[0])}/{_asset_key(key)}"
        query = f"?sp=r&sv=2018-11-09&sr=b&rscd={filename}&rsct=application%2Foctet-stream&sig=lab"
        return RedirectResponse(f"https://{names.GITHUB_ASSETS}{asset}{query}", status_code=302)

    async def latest(self, request: Request) -> Response:
        """Redirect to the newest tag."""
        repository = f"{request.path_params['owner']}/{request.path_params['repository']}"
        tags = sorted(tag for name, tag, _ in self.shelf.releases if name == repository)
        if not tags:
            return PlainTextResponse("Not Found", status_code=404)
        place = f"https://{names.GITHUB}/{repository}/releases/tag/{tags[-1]}"
        return RedirectResponse(place, status_code=302)

    async def asset(self, request: Request) -> Response:
        """Return the file; reject a URL without its signature."""
        for key, path in self.shelf.releases.items():
            if _asset_key(key) == request.path_params["key"]:
                if "sig" not in request.query_params:
                    return Response(status_code=403)
                return files.answer(request, path, self.memory, key[2])
        return Response(status_code=404)


@dataclass(frozen=True, slots=True)
class Tags:
    """Archives of tags: another host packs them, and sends no length."""

    shelf: dict[tuple[str, str], Path]
    memory: Memory

    async def redirect(self, request: Request) -> Response:
        """Redirect to the host that packs, also for a tag that does not exist."""
        path = request.path_params
        tag, _, packing = path["file"].partition(".tar.gz")
        if packing or not path["file"].endswith(".tar.gz"):
            return PlainTextResponse("Not Found", status_code=404)
        place = f"/{path['owner']}/{path['repository']}/tar.gz/refs/tags/{tag}"
        return RedirectResponse(f"https://{names.GITHUB_ARCHIVES}{place}", status_code=302)

    async def archive(self, request: Request) -> Response:
        """Return the archive in chunks; ranges are not supported."""
        path = request.path_params
        found = self.shelf.get((f"{path['owner']}/{path['repository']}", path["tag"]))
        if found is None:
            return PlainTextResponse("404: Not Found", status_code=404)
        answer = files.answer(request, found, self.memory)
        for header in ("Content-Length", "Accept-Ranges"):
            del answer.headers[header]
        return answer


@dataclass(frozen=True, slots=True)
class Registry:
    """Ollama's registry: manifests from docker-registry, blobs redirected to their host."""

    shelf: Shelf
    memory: Memory
    client: httpx.AsyncClient

    async def hello(self, request: Request) -> Response:
        """Identify this host as a registry."""
        return JSONResponse({}, headers={"Docker-Distribution-Api-Version": "registry/2.0"})

    async def manifest(self, request: Request) -> Response:
        """Return a manifest as docker-registry stores it."""
        answer = await self._ask(request, {"Accept": registry.MANIFEST_TYPE})
        host = request.headers.get("host", "")
        if self.memory.take(host, request.url.path, "broken"):
            # Still the same manifest when parsed, but with another digest.
            return Response(bytes(answer.body) + b"\n", media_type=registry.MANIFEST_TYPE)
        return answer

    async def blob(self, request: Request) -> Response:
        """Answer HEAD here and redirect GET.

        Ollama takes the size from HEAD, where it follows no redirect to a foreign host (since
        0.34.2), and for GET it demands a redirect.
        """
        digest = request.path_params["digest"]
        if not _DIGEST.fullmatch(digest):
            return Response(status_code=400)
        answer = await self._ask(request, {}, method="HEAD")
        if request.method == "HEAD" or answer.status_code != 200:
            return answer
        name = digest.removeprefix("sha256:")
        place = f"/ollama/docker/registry/v2/blobs/sha256/{name[:2]}/{name}/data"
        query = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=86400&X-Amz-Signature=lab"
        return RedirectResponse(f"https://{names.REGISTRY_BLOBS}{place}{query}", status_code=307)

    async def data(self, request: Request) -> Response:
        """Return a blob; reject a URL without its signature."""
        digest = f"sha256:{request.path_params['name']}"
        if not _DIGEST.fullmatch(digest):
            return Response(status_code=404)
        if "X-Amz-Signature" not in request.query_params:
            return Response(status_code=400)
        path = registry.blob_path(self.shelf.registry_storage, digest)
        return files.answer(request, path, self.memory)

    async def _ask(
        self, request: Request, headers: dict[str, str], method: str | None = None
    ) -> Response:
        """Return docker-registry's response to the same path."""
        address = self.shelf.registry_address + request.url.path
        try:
            async with asyncio.timeout(REGISTRY_S):
                asked = await self.client.request(
                    method or request.method, address, headers=headers
                )
        except (TimeoutError, httpx.HTTPError) as error:
            return PlainTextResponse(f"docker-registry: {type(error).__name__}", status_code=502)
        kept = {key: value for key, value in asked.headers.items() if key in PASSED_ON}
        return Response(asked.content, asked.status_code, headers=kept)


def _number(repository: str) -> int:
    """Return a number for a repository, as in GitHub's asset URLs."""
    return int.from_bytes(hashlib.sha256(repository.encode()).digest()[:4])


def _asset_key(key: tuple[str, str, str]) -> str:
    """Return the name of one release file at the asset host."""
    return hashlib.sha256("\n".join(key).encode()).hexdigest()[:32]

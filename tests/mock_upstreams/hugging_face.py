"""Hugging Face as a download sees it: `resolve/` redirects, large files to another host."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tests.mock_upstreams import files, names
from tests.mock_upstreams.faults import Memory

Key = tuple[str, str, str]
# The site itself serves files that git stores; larger files are in its storage.
LARGE_BYTES = 10 << 20


@dataclass(frozen=True, slots=True)
class HuggingFace:
    """Files of repositories by (owner/name, revision, path); branches are not supported."""

    shelf: dict[Key, Path]
    memory: Memory

    async def resolve(self, request: Request) -> Response:
        """Redirect to the file, with the site's headers about its commit and size."""
        key = _key(request)
        path = self.shelf.get(key)
        if path is None:
            return JSONResponse({"error": "Entry not found"}, status_code=404)
        size = path.stat().st_size
        headers = {"X-Repo-Commit": key[1], "X-Linked-Size": str(size)}
        if size < LARGE_BYTES:
            place = f"/api/resolve-cache/models/{key[0]}/{key[1]}/{quote(key[2])}?etag=lab"
            return RedirectResponse(place, status_code=307, headers=headers)
        query = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=lab"
        place = f"https://{names.HUGGING_FACE_FILES}/xet-bridge-us/{_number(key[0])}/{_name(key)}"
        return RedirectResponse(place + query, status_code=302, headers=headers)

    async def cached(self, request: Request) -> Response:
        """Return a small file."""
        path = self.shelf.get(_key(request))
        if path is None:
            return JSONResponse({"error": "Entry not found"}, status_code=404)
        return files.answer(request, path, self.memory)

    async def stored(self, request: Request) -> Response:
        """Return a large file; reject a URL without its signature."""
        for key, path in self.shelf.items():
            if _name(key) == request.path_params["digest"]:
                if "X-Amz-Signature" not in request.query_params:
                    return Response(status_code=403)
                return files.answer(request, path, self.memory, key[2].rpartition("/")[2])
        return Response(status_code=404)


def _key(request: Request) -> Key:
    path = request.path_params
    return f"{path['owner']}/{path['repository']}", path["revision"], path["file"]


def _number(repository: str) -> str:
    """Return a name for a repository, in the style of the storage."""
    return hashlib.sha256(repository.encode()).hexdigest()[:24]


def _name(key: Key) -> str:
    """Return the name of one file in the storage."""
    return hashlib.sha256("\n".join(key).encode()).hexdigest()

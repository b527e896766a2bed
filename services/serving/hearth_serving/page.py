"""A server's page, for people: one document, its own files, and those that all pages share."""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from string import Template

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SHARED = Path(__file__).parent / "page"
"""The files that all pages share; they are served beside a page's own files."""

_DOCUMENT = "index.html"
_PREFIX = "/page/"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "media-src 'self' blob:; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing from other sites, no inline scripts or styles, and no frame around the page."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_Endpoint = Callable[[Request], Awaitable[Response]]


def is_page(path: str) -> bool:
    """Return whether this path is the page or one of its files, which need no key."""
    return path == "/" or path.startswith(_PREFIX)


def page_routes(folder: Path, values: Mapping[str, object], later: Collection[str]) -> list[Route]:
    """Return the routes of the page in `folder` and of its files.

    The document contains `values`. It preloads all modules except those in `later`.
    """
    files = page_files(folder)
    address, route = file_route(files)
    return [Route("/", _document(files, address, values, later)), route]


def file_route(files: Mapping[str, bytes], prefix: str = _PREFIX) -> tuple[str, Route]:
    """Return the address below which these files are served, and the route that serves them.

    The address changes with their content, so browsers may keep them for ever.
    """
    version = _version(files)
    return prefix + version, Route(prefix + "{version}/{name}", _file(files, version))


def page_files(folder: Path) -> dict[str, bytes]:
    """Return the files of the page in `folder` by name: its own and the shared ones.

    Raises ValueError where both have a file of the same name.
    """
    own, shared = _read(folder), _read(SHARED)
    if twice := sorted(set(own) & set(shared)):
        names = ", ".join(twice)
        raise ValueError(f"{folder}: {names} is shared by all pages; give it another name")
    return dict(sorted({**own, **shared}.items()))


def _read(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if _is_file(file)}


def _is_file(path: Path) -> bool:
    return path.suffix in _TYPES or path.name == _DOCUMENT


def _version(files: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, content in files.items():
        total.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    return total.hexdigest()[:16]


def _document(
    files: Mapping[str, bytes], address: str, values: Mapping[str, object], later: Collection[str]
) -> _Endpoint:
    modules = [name for name in files if name.endswith(".mjs") and name not in later]
    preload = '<link rel="modulepreload" href="{}/{}">'
    content = Template(files[_DOCUMENT].decode()).substitute(
        files=address,
        preloads="\n".join(preload.format(address, name) for name in modules),
        **values,
    )
    tag = f'"{hashlib.sha256(content.encode()).hexdigest()[:16]}"'
    # Requested again each time, and it names the version of all its files. So after an upgrade no
    # browser has a document of one version with a script of another.
    headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": tag}

    async def document(request: Request) -> Response:
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="text/html")

    return document


def _file(files: Mapping[str, bytes], version: str) -> _Endpoint:
    # A file of this version never changes; behind a login it is for this browser alone.
    headers = {**_HEADERS, "Cache-Control": "private, max-age=31536000, immutable"}

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if request.path_params["version"] != version or name not in files or name == _DOCUMENT:
            raise HTTPException(404)
        media_type = _TYPES[Path(name).suffix]
        return Response(files[name], headers=headers, media_type=media_type)

    return file

"""Serves a file as object stores do: with ranges, entity tags, and faults."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.mock_upstreams.faults import Memory, read

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def answer(request: Request, path: Path, memory: Memory, name: str = "") -> Response:
    """Return the file, or the requested range of it, with its length, tag and type."""
    if not path.is_file():
        return Response(status_code=404)
    size, tag = path.stat().st_size, f'"0x{path.stat().st_mtime_ns:X}"'
    headers = {"ETag": tag, "Accept-Ranges": "bytes"}
    if name:
        headers["Content-Disposition"] = f"attachment; filename={name}"
    asked = request.headers.get("range", "")
    # With If-Range the client wants a range of exactly the file that it started to download.
    if asked and request.headers.get("if-range", tag) == tag:
        part = wanted_part(asked, size)
        if part is None:
            return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
        start, length, status = part[0], part[1], 206
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
    else:
        start, length, status = 0, size, 200
    headers["Content-Length"] = str(length)
    media_type = "application/octet-stream"
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=media_type)
    host = request.headers.get("host", "").partition(":")[0]
    fault = memory.take(host, request.url.path, "broken", "cut", "slow")
    body = read(path, start, length, memory.pace, fault)
    return StreamingResponse(body, status_code=status, headers=headers, media_type=media_type)


def wanted_part(header: str, size: int) -> tuple[int, int] | None:
    """Return (start, length) of a Range header with one part, or None if unsatisfiable."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    return (start, end - start) if start < end else None

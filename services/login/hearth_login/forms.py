"""Reading a form that a stranger sent: little, soon, or not at all."""

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

LIMIT_BYTES = 8192
DEADLINE_S = 10.0


async def read_form(request: Request, deadline_s: float = DEADLINE_S) -> Mapping[str, str]:
    """Return the fields of an urlencoded form; an empty one for all that is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    body = bytearray()
    try:
        async with asyncio.timeout(deadline_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LIMIT_BYTES:
                    return {}
    except (TimeoutError, ClientDisconnect):
        return {}
    return fields(body.decode("utf-8", "replace"))


def fields(text: str) -> Mapping[str, str]:
    """Return the first value of each name in an urlencoded text."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=20, errors="replace")
    except ValueError:
        return {}
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found

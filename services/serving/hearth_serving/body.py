"""Bodies of requests, counted as they come."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read a body, counting as it comes; raises ServiceError when it is too long or too slow."""
    try:
        async with asyncio.timeout(limits.body_s):
            return await _counted(request, limits.body_bytes)
    except TimeoutError:
        message = f"the request did not arrive within {limits.body_s:g} s"
        raise ServiceError(message, status=408, code="request_timeout") from None
    except ClientDisconnect:
        raise ServiceError("the request was cut off", code="cut_off") from None


async def _counted(request: Request, most: int) -> bytes:
    content, length = bytearray(), 0
    async for part in request.stream():
        length += len(part)
        if length <= most:
            content += part
        # A client hears why only after it has sent all; one that sends for ever does not.
        elif length > 8 * most:
            break
    if length > most:
        message = f"a request has at most {most} bytes"
        raise ServiceError(message, status=413, code="request_too_large")
    return bytes(content)

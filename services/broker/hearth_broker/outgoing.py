"""Requests that the broker sends: each bounded in time and size, and never redirected."""

import asyncio
import ipaddress
import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from hearth.clients.endpoints import needs_authorities

from .verbs import HOUSE, RefusedError

MOST_BYTES = 512 * 1024


class Received(NamedTuple):
    """One answer; its body is the start of a longer one if it is `cut`."""

    status: int
    media_type: str
    body: bytes
    cut: bool

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode(errors="replace")

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in the body; RefusedError names the server without one."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RefusedError(f"{name} answers HTTP {self.status} without a JSON object", HOUSE)
        return found


async def send(
    name: str,
    url: str,
    within_s: float,
    *,
    method: str = "GET",
    verify: ssl.SSLContext | None = None,
    **more: Any,
) -> Received:
    """Send one request to a server of the house, which `name` describes to people.

    Raises:
        RefusedError: no answer came in time.
    """
    try:
        # httpx bounds each read, not the whole answer.
        async with (
            asyncio.timeout(within_s),
            httpx.AsyncClient(
                trust_env=False, timeout=within_s, verify=verify or needs_authorities(url)
            ) as client,
            client.stream(method, url, **more) as response,
        ):
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    break
            media_type = response.headers.get("content-type", "").partition(";")[0].strip()
            cut = len(body) > MOST_BYTES
            return Received(response.status_code, media_type[:80], body[:MOST_BYTES], cut)
    except TimeoutError:
        raise RefusedError(f"{name} gives no whole answer within {within_s:g} s", HOUSE) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        line = f"{name} does not answer: {type(error).__name__}"
        if _is_named(url):
            # The unit may reach the addresses that the name had when the house was converged.
            line += "; if its address has changed, run `hearth up`"
        raise RefusedError(line, HOUSE) from None


def _is_named(url: str) -> bool:
    try:
        ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return True
    return False

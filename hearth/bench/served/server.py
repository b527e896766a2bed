"""One server that is measured: how it is reached, and the small questions that it answers."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth.bench import BenchError

_STATUS_S = 5.0
_SETTLE_S = 5.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Server:
    """One server: where it is, and what it calls its model."""

    name: str
    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    host: str | None = None
    """The name that is asked for, where `url` names an address."""
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    call_s: float = 30.0
    """The longest that a short request may take in all."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        headers = {"Host": self.host} if self.host else {}
        return headers | ({"Authorization": f"Bearer {self.key}"} if self.key else {})

    def client(self) -> httpx.AsyncClient:
        """Return a client that keeps its connections to this server."""

        async def name(request: httpx.Request) -> None:
            # The address is dialled, the name is asked for and verified.
            if self.host:
                request.extensions["sni_hostname"] = self.host

        return httpx.AsyncClient(
            base_url=self.url.rstrip("/"),
            headers=self.headers,
            event_hooks={"request": [name]},
            # Without TLS nobody is verified: reading the machine's authorities for it takes longer
            # than a short phrase.
            verify=self.trust or self.url.startswith("https:"),
            trust_env=False,
            timeout=None,  # noqa: S113 - every call has a total deadline of its own
        )


async def is_well(client: httpx.AsyncClient, within_s: float) -> bool:
    """Ask for `/health`; a server that answers quickly that it is not well is not well."""
    try:
        async with asyncio.timeout(within_s):
            return (await client.get("/health")).status_code == httpx.codes.OK
    except (TimeoutError, httpx.HTTPError, OSError):
        return False


async def ask_json(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return the JSON of a small question, empty where the server has no such path.

    Raises:
        BenchError: nobody answers.
    """
    try:
        async with asyncio.timeout(_STATUS_S):
            response = await client.get(path)
            said = response.json() if response.is_success else {}
    except TimeoutError as error:
        raise BenchError(f"{client.base_url}{path}: no answer within {_STATUS_S:g} s") from error
    except (httpx.HTTPError, OSError) as error:
        raise BenchError(f"{client.base_url}{path}: {type(error).__name__}: {error}") from error
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


async def settled(client: httpx.AsyncClient) -> None:
    """Wait until the server says that it does nothing; a moment where it does not say."""
    try:
        async with asyncio.timeout(_SETTLE_S):
            while True:
                await asyncio.sleep(_LOOK_S)
                response = await client.get("/status")
                status = response.json() if response.is_success else None
                if not isinstance(status, dict) or "active" not in status:
                    await asyncio.sleep(4 * _LOOK_S)
                    return
                if not status["active"] and not status.get("waiting"):
                    return
    except (TimeoutError, httpx.HTTPError, OSError, ValueError):
        return

"""An HTTP endpoint that is called or measured, and the small requests that its server answers."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from hearth.clients import ClientError, reason

Dialect = Literal["openai", "ollama"]
_STATUS_S = 5.0
_SETTLE_S = 5.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server: its base URL, the name of its model there, and how long a call may take."""

    name: str
    url: str
    model: str = ""
    key: str | None = field(default=None, repr=False)
    host: str | None = None
    """The host name to send and verify where `url` contains an address."""
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    call_s: float = 30.0
    """The total deadline of a short request."""
    dialect: Dialect = "openai"
    voice: str | None = None
    """The voice to request instead of Kokoro's voices, where the server has others."""

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the key."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def _settings(self) -> dict[str, Any]:
        return {
            "base_url": self.url.rstrip("/"),
            "headers": ({"Host": self.host} if self.host else {}) | self.authorization,
            "verify": self.trust or needs_authorities(self.url),
            "trust_env": False,
        }

    def _set_server_name(self, request: httpx.Request) -> None:
        # The client connects to the address, but sends and verifies the host name.
        if self.host:
            request.extensions["sni_hostname"] = self.host

    def client(self) -> httpx.AsyncClient:
        """Return a client that keeps its connections; every call needs a total deadline."""

        async def set_server_name(request: httpx.Request) -> None:
            self._set_server_name(request)

        hooks = {"request": [set_server_name]}
        return httpx.AsyncClient(**self._settings(), event_hooks=hooks, timeout=None)  # noqa: S113

    def send(self, method: str, path: str, within_s: float = 60, **more: Any) -> httpx.Response:
        """Send one request and return the whole response, whatever its status."""
        try:
            with self.blocking_client() as client:
                return client.request(method, path, timeout=within_s, **more)
        except httpx.HTTPError as error:
            raise ClientError(f"{method} {path}: {reason(error)}") from error

    def blocking_client(self) -> httpx.Client:
        """Return a client that waits at most `call_s` for each read."""
        hooks = {"request": [self._set_server_name]}
        return httpx.Client(**self._settings(), event_hooks=hooks, timeout=self.call_s)


def needs_authorities(url: str) -> bool:
    """Return whether a client must load the system's authorities, which takes some 50 ms."""
    return url.startswith("https:")


def get_json(url: str, within_s: float) -> Any:
    """Return a server's JSON as the machine itself gets it."""
    try:
        verify = needs_authorities(url)
        answer = httpx.get(url, timeout=within_s, trust_env=False, verify=verify)
        return answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise ClientError(f"{url}: {reason(error)}") from error


async def is_healthy(client: httpx.AsyncClient, within_s: float) -> bool:
    """Return whether `/health` answers 200 in time."""
    try:
        async with asyncio.timeout(within_s):
            return (await client.get("/health")).status_code == httpx.codes.OK
    except (TimeoutError, httpx.HTTPError, OSError):
        return False


async def fetch_json(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return the JSON object at a path, empty where the server has none."""
    try:
        async with asyncio.timeout(_STATUS_S):
            response = await client.get(path)
            document = response.json() if response.is_success else {}
    except TimeoutError as error:
        raise ClientError(f"{client.base_url}{path}: no answer within {_STATUS_S:g} s") from error
    except (httpx.HTTPError, OSError) as error:
        raise ClientError(f"{client.base_url}{path}: {type(error).__name__}: {error}") from error
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


async def wait_until_idle(client: httpx.AsyncClient) -> None:
    """Wait until `/status` reports no work; where it does not report that, wait a moment."""
    try:
        async with asyncio.timeout(_SETTLE_S):
            while True:
                await asyncio.sleep(_POLL_S)
                response = await client.get("/status")
                status = response.json() if response.is_success else None
                if not isinstance(status, dict) or "active" not in status:
                    await asyncio.sleep(4 * _POLL_S)
                    return
                if not status["active"] and not status.get("waiting"):
                    return
    except (TimeoutError, httpx.HTTPError, OSError, ValueError):
        return


def one_line(text: object, most: int = 200) -> str:
    """Return a text in one line of at most so many characters."""
    return " ".join(str(text).split())[:most]

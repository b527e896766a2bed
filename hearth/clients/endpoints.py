"""HTTP endpoints that are called or measured: any server's, and the sites of the house.

A site is called as a device on the LAN does: by name, over HTTPS, trusting the house's root only.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import WebSocketException

from hearth.catalogue.house import House
from hearth.clients import ClientError
from hearth.machine import facts
from hearth.paths import ROOT_CERTIFICATE

_STATUS_S = 5.0
_SETTLE_S = 5.0
_POLL_S = 0.05
_LINE = 300


@contextmanager
def client_errors(call: str, within_s: float) -> Iterator[None]:
    """Raise ClientError where `call` is refused, breaks off or does not end in time."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ClientError(f"{call}: no complete answer within {within_s:g} s") from error
    except (httpx.HTTPError, WebSocketException, OSError, json.JSONDecodeError) as error:
        raise ClientError(f"{call}: {type(error).__name__}: {error}") from error


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

    def blocking_client(self) -> httpx.Client:
        """Return a client that waits at most `call_s` for each read."""
        hooks = {"request": [self._set_server_name]}
        return httpx.Client(**self._settings(), event_hooks=hooks, timeout=self.call_s)

    def send(self, method: str, path: str, within_s: float = 60, **more: Any) -> httpx.Response:
        """Send one request and return the whole response, whatever its status."""
        with client_errors(f"{method} {path}", within_s), self.blocking_client() as client:
            return client.request(method, path, timeout=within_s, **more)


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Edge:
    """The house's reverse proxy: its LAN address, and the root certificate of its names."""

    address: str
    root: Path

    def request(self, fqdn: str, path: str, *, within_s: float, **more: Any) -> Answer:
        """Send one request as `stream` does, and return its whole answer."""
        with self.stream(fqdn, path, within_s, **more) as (response, chunks):
            return Answer(response.status_code, response.headers, b"".join(chunks))

    @contextmanager
    def stream(
        self,
        fqdn: str,
        path: str,
        within_s: float,
        key: str | None = None,
        send: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        """Send one request to a site and yield its body piece by piece, as it arrives.

        `send` makes it a POST: of JSON, of a form's fields when it is text, and of the type in
        `headers` when it is bytes. `within_s` bounds all of it. Redirects are not followed.
        """
        more: dict[str, Any] = {"json": send} if send is not None else {}
        if isinstance(send, str | bytes):
            more = {"content": send}
        if isinstance(send, str):
            headers = {"Content-Type": "application/x-www-form-urlencoded"} | dict(headers or {})
        method = "GET" if send is None else "POST"
        with (
            client_errors(f"https://{fqdn}{path}", within_s),
            self.endpoint(fqdn, key, call_s=within_s).blocking_client() as client,
            # An absolute address: of a relative one httpx would change the slashes.
            client.stream(
                method, f"https://{self.address}{path}", headers=headers, **more
            ) as response,
        ):
            yield response, body_until(response, time.monotonic() + within_s)

    def endpoint(self, fqdn: str, key: str | None = None, **more: Any) -> Endpoint:
        """Return a site as an endpoint; `more` are other fields of it."""
        more = {"name": fqdn, "url": f"https://{self.address}", "host": fqdn} | more
        return Endpoint(key=key, trust=self.trust(), **more)

    def trust(self) -> ssl.SSLContext:
        """Return a context that trusts the house's root and no other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # As strict as Python 3.13's own default, so that every client accepts the certificates.
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            context.load_verify_locations(self.root)
        except (OSError, ssl.SSLError) as error:
            raise ClientError(f"{self.root}: {error}: run `hearth up`") from error
        return context


def house_edge(house: House) -> Edge:
    """Return the edge of this machine's house."""
    machine = house.machine
    address = machine.lan_address
    if address == "auto":
        _, address = facts.lan(machine.lan_interface)
    return Edge(address, ROOT_CERTIFICATE)


def lan_address(house: House) -> str | None:
    """Return the house's address on the LAN; None where the machine has none."""
    try:
        return house_edge(house).address
    except facts.FactsError:
        return None


def body_until(response: httpx.Response, deadline: float) -> Iterator[bytes]:
    """Yield a body piece by piece; httpx bounds each read, TimeoutError all of them."""
    for chunk in response.iter_bytes():
        yield chunk
        if time.monotonic() > deadline:
            raise TimeoutError


def sse(chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON of each event of a stream, until its `[DONE]`."""
    buffer = b""
    for chunk in chunks:
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                return
            if data:
                yield json.loads(data)


def needs_authorities(url: str) -> bool:
    """Return whether a client must load the system's authorities, which takes some 50 ms."""
    return url.startswith("https:")


def get_json(url: str, within_s: float) -> Any:
    """Return a server's JSON as the machine itself gets it."""
    with client_errors(url, within_s):
        verify = needs_authorities(url)
        answer = httpx.get(url, timeout=within_s, trust_env=False, verify=verify)
        return answer.raise_for_status().json()


async def is_healthy(client: httpx.AsyncClient, within_s: float) -> bool:
    """Return whether `/health` answers 200 in time."""
    try:
        async with asyncio.timeout(within_s):
            return (await client.get("/health")).status_code == httpx.codes.OK
    except (TimeoutError, httpx.HTTPError, OSError):
        return False


async def fetch_json(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return the JSON object at a path, empty where the server has none."""
    with client_errors(f"{client.base_url}{path}", _STATUS_S):
        async with asyncio.timeout(_STATUS_S):
            response = await client.get(path)
    try:
        document = response.json() if response.is_success else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


async def wait_until_idle(client: httpx.AsyncClient) -> None:
    """Wait until `/status` reports no work; where it does not report that, wait a moment."""
    try:
        async with asyncio.timeout(_SETTLE_S):
            while True:
                await asyncio.sleep(_POLL_S)
                status = await fetch_json(client, "/status")
                if "active" not in status:
                    await asyncio.sleep(4 * _POLL_S)
                    return
                if not status["active"] and not status.get("waiting"):
                    return
    except (TimeoutError, ClientError):
        return


def one_line(text: object) -> str:
    """Return a text, or an error's, in one line without control characters: a terminal is safe."""
    shown = "".join(c if c.isprintable() else " " for c in str(text))
    line = " ".join(shown.split())[:_LINE]
    return line or (type(text).__name__ if isinstance(text, Exception) else "")

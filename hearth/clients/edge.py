"""Calls the house as a device on the LAN does: by name, over HTTPS, trusting its root only."""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hearth.catalogue.house import House
from hearth.clients import ClientError, reason
from hearth.clients.endpoints import Endpoint
from hearth.machine import facts
from hearth.paths import ROOT_CERTIFICATE


def house_edge(house: House) -> "Edge":
    """Return the edge of this machine's house."""
    machine = house.machine
    address = machine.lan_address
    if address == "auto":
        _, address = facts.lan(machine.lan_interface)
    return Edge(address, ROOT_CERTIFICATE)


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

    def request(
        self,
        fqdn: str,
        path: str,
        *,
        within_s: float,
        key: str | None = None,
        send: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request to a site and return its answer; redirects are not followed.

        `send` makes it a POST: of JSON, of a form's fields when it is text, and of the type in
        `headers` when it is bytes. `within_s` bounds all of it.
        """
        with self.stream(fqdn, path, within_s, key, send, headers) as (response, chunks):
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
        """Send one request and yield its body piece by piece, as it arrives."""
        more: dict[str, Any] = {"json": send} if send is not None else {}
        if isinstance(send, str | bytes):
            more = {"content": send}
        if isinstance(send, str):
            headers = {"Content-Type": "application/x-www-form-urlencoded"} | dict(headers or {})
        method = "GET" if send is None else "POST"
        try:
            with (
                self.endpoint(fqdn, key, call_s=within_s).blocking_client() as client,
                # An absolute address: of a relative one httpx would change the slashes.
                client.stream(
                    method, f"https://{self.address}{path}", headers=headers, **more
                ) as response,
            ):
                yield response, body_until(response, time.monotonic() + within_s, within_s)
        except (httpx.HTTPError, TimeoutError) as error:
            raise ClientError(f"https://{fqdn}{path}: {reason(error)}") from error

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


def body_until(response: httpx.Response, deadline: float, within_s: float) -> Iterator[bytes]:
    """Yield a body piece by piece; httpx bounds each read, TimeoutError all of them."""
    for chunk in response.iter_bytes():
        yield chunk
        if time.monotonic() > deadline:
            raise TimeoutError(f"no complete answer in {within_s:g} s")


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

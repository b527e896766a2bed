"""Ask the house as a device on the LAN does: by name, over HTTPS, trusting its root only."""

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
from hearth.machine import facts
from hearth.paths import ROOT_CERTIFICATE


def front_door(house: House) -> "Edge":
    """Return the way into the house of this machine."""
    machine = house.machine
    address = machine.lan_address
    if address == "auto":
        _, address = facts.lan(machine.lan_interface)
    return Edge(address, ROOT_CERTIFICATE)


class EdgeError(Exception):
    """One line for a person: which address gave which trouble."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read to its end."""

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
    """The house's front door: its LAN address, and the certificate that vouches for its names."""

    address: str
    root: Path

    def ask(
        self,
        fqdn: str,
        path: str,
        *,
        within_s: float,
        key: str | None = None,
        send: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request to a site and return its answer, redirects not followed.

        `send` makes it a POST: of JSON, of a form's fields when it is text, and of whatever
        `headers` say when it is bytes.

        Raises:
            EdgeError: no answer within `within_s` seconds in all.
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
        """Send one request and hand out its body piece by piece, as it comes."""
        asked = {"Host": fqdn} | dict(headers or {})
        if key is not None:
            asked["Authorization"] = f"Bearer {key}"
        body: dict[str, Any] = {} if send is None else {"json": send}
        if isinstance(send, str):
            asked["Content-Type"] = "application/x-www-form-urlencoded"
            body = {"content": send}
        elif isinstance(send, bytes):
            body = {"content": send}
        try:
            with (
                httpx.Client(verify=self.trust(), trust_env=False, timeout=within_s) as client,
                client.stream(
                    "GET" if send is None else "POST",
                    f"https://{self.address}{path}",
                    headers=asked,
                    **body,
                    # The address is dialled, the name is asked for and verified.
                    extensions={"sni_hostname": fqdn},
                ) as response,
            ):
                yield response, _until(response, time.monotonic() + within_s, within_s)
        except (httpx.HTTPError, TimeoutError) as error:
            raise EdgeError(f"https://{fqdn}{path}: {error or type(error).__name__}") from error

    def trust(self) -> ssl.SSLContext:
        """Return a context that trusts the house's root and nobody else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # As strict as Python 3.13's own default: the house's certificates must please everyone.
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            context.load_verify_locations(self.root)
        except (OSError, ssl.SSLError) as error:
            raise EdgeError(f"{self.root}: {error}: run `hearth up`") from error
        return context


def _until(response: httpx.Response, deadline: float, within_s: float) -> Iterator[bytes]:
    # httpx bounds each read, not the whole answer; a backend that drips would never end.
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

"""A stand-in for the internet: names, addresses and pages, and who connects to what."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from ssl import SSLContext
from typing import Any

import httpcore

from tests.lab.chat import pdf

Page = tuple[int, Mapping[str, str], bytes]
_CHUNK = b"<p>more</p>" * 6000


class Web(httpcore.AsyncNetworkBackend):
    """Names with their addresses, answer after answer, and one server behind all public ones."""

    public = "93.184.215.14"
    url = "http://web.example.org"

    def __init__(self, inside: bytes) -> None:
        """Let every address that is not public answer with `inside`, and be noted."""
        self.names: dict[str, list[list[str]]] = {
            "web.example.org": [[self.public]],
            # What the house's resolver would say of its own names.
            "home.lan": [["192.168.1.10"]],
            "litellm": [["10.140.30.14"]],
            "litellm.lan": [["10.140.30.14"]],
            "localhost": [["127.0.0.1"]],
            "localhost.localdomain": [["127.0.0.1"]],
        }
        self.paths: dict[str, Page] = {}
        self.headers: list[dict[str, str]] = []
        self.met_inside: list[str] = []
        self._inside = inside
        self._asked: dict[str, int] = {}
        self._streams: dict[str, Iterable[bytes | float]] = {}

    def page(self, path: str, text: str) -> str:
        """Serve a page, and return its URL."""
        content = f"<!doctype html><html><body>{text}</body></html>".encode()
        self.paths[path] = (200, {"Content-Type": "text/html; charset=utf-8"}, content)
        return f"{self.url}{path}"

    def pdf(self, path: str, text: str) -> str:
        """Serve a PDF, and return its URL."""
        self.paths[path] = (200, {"Content-Type": "application/pdf"}, pdf(text))
        return f"{self.url}{path}"

    def endless(self, path: str) -> None:
        """Serve a page that never ends."""
        self._streams[path] = itertools.chain([_head(200, "text/html")], itertools.repeat(_CHUNK))

    def endless_headers(self, path: str) -> None:
        """Serve headers that never end."""
        lines = (f"X-{number}: {'y' * 400}\r\n".encode() for number in itertools.count())
        self._streams[path] = itertools.chain([b"HTTP/1.1 200 OK\r\n"], lines)

    def drips(self, path: str) -> None:
        """Serve a page that sends one byte in a tenth of a second."""
        pairs: Iterator[bytes | float] = itertools.chain.from_iterable(
            itertools.repeat((0.1, b"x"))
        )
        self._streams[path] = itertools.chain([_head(200, "text/plain")], pairs)

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of a name; a name with several answers gives one after the other."""
        answers = self.names.get(host, [[]])
        number = self._asked.get(host, 0)
        self._asked[host] = number + 1
        return answers[min(number, len(answers) - 1)]

    async def connect_tcp(self, host: str, port: int, **_: Any) -> httpcore.AsyncNetworkStream:  # type: ignore[override]
        """Connect; an address that is not public is noted, and gives its secret away."""
        if not IPv4Address(host).is_global or port not in (80, 443):
            self.met_inside.append(f"{host}:{port}")
            return _Stream(self, [_head(200, "text/plain") + self._inside])
        return _Stream(self, None)

    def answer(self, request: bytes) -> Iterable[bytes | float]:
        """Return the pieces of the response to a request."""
        first, *lines = request.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        self.headers.append({name.lower(): value.strip() for name, _, value in pairs})
        path = first.split(" ")[1].partition("?")[0]
        if path in self._streams:
            return self._streams[path]
        status, headers, body = self.paths.get(path, (404, {}, b"nothing is here"))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        length = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        return [f"HTTP/1.1 {status} x\r\n{head}{length}\r\n".encode() + body]


def _head(status: int, kind: str) -> bytes:
    return f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()


class _Stream(httpcore.AsyncNetworkStream):
    """One connection: a request in, and the pieces of its response out."""

    def __init__(self, web: Web, pieces: Iterable[bytes | float] | None) -> None:
        self._web, self._sent = web, b""
        self._pieces = None if pieces is None else iter(pieces)
        self._rest = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._pieces is None:
            self._pieces = iter(self._web.answer(self._sent))
        while not self._rest:
            piece = next(self._pieces, b"")
            if isinstance(piece, bytes):
                self._rest = piece
                if not piece:
                    return b""
            else:
                await asyncio.sleep(piece)
        await asyncio.sleep(0)
        found, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._sent += buffer

    async def aclose(self) -> None:
        self._pieces = iter(())

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return None

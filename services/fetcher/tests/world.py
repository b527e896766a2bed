"""A world of its own: names with made-up public addresses, whose servers are on loopback."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any

import httpcore
import httpx

from hearth_fetcher.addresses import Guard
from hearth_fetcher.app import FetcherState, make_app
from hearth_fetcher.fetching import Fetcher
from hearth_fetcher.limits import Limits

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PUBLIC, OTHER = "93.184.215.14", "198.41.0.4"
SITE = "pages.example.org"


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole response; `content_type` becomes Content-Type."""
    named = {"content_type": "text/plain", "content_length": str(len(body)), **headers}
    head = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in named.items() if v)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


@dataclass(slots=True)
class World(httpcore.AsyncNetworkBackend):
    """The internet as the fetcher sees it, and a record of what it did there.

    `names` has the answers of the resolver, one after the other; the last one stays.
    """

    limits: Limits = field(default_factory=Limits)
    names: dict[str, list[Sequence[str]]] = field(default_factory=lambda: {SITE: [[PUBLIC]]})
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    closed: tuple[IPv4Network, ...] = ()
    open_names: frozenset[str] = frozenset()
    resolved: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    servers: list[asyncio.Server] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)
    state: FetcherState | None = None

    async def resolve(self, host: str) -> Sequence[str]:
        """Answer as the resolver."""
        self.resolved.append(host)
        answers = self.names.get(host, [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> Any:
        """Connect to the loopback port behind a made-up address."""
        self.dialled.append((host, port))
        if (host, port) not in self.ports:
            raise httpcore.ConnectError
        return await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self.ports[host, port])

    async def serve(
        self, *answers: bytes | Serve, at: str = PUBLIC, tls: ssl.SSLContext | None = None
    ) -> None:
        """Answer the connections to an address, one after the other; the last answer stays."""
        left = list(answers)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self.serving.add(task)
            try:
                await speak(reader, writer)
            finally:
                writer.transport.abort()

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            now = left.pop(0) if len(left) > 1 else left[0]
            with suppress(OSError, asyncio.IncompleteReadError):
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                if isinstance(now, bytes):
                    writer.write(now)
                    await writer.drain()
                else:
                    await now(reader, writer)
                writer.close()
                await writer.wait_closed()

        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
        self.servers.append(server)
        self.ports[at, 443 if tls else 80] = server.sockets[0].getsockname()[1]

    async def end(self) -> None:
        """End all servers, also in the middle of an answer."""
        for server in self.servers:
            server.close()
        for task in self.serving:
            task.cancel()
        await asyncio.gather(*self.serving, return_exceptions=True)
        await asyncio.sleep(0)

    async def ask(self, url: object) -> httpx.Response:
        """Request a page from the fetcher."""
        return await self.post({"url": url})

    async def post(self, body: object) -> httpx.Response:
        """Send a body to the fetcher, which is made at the first one."""
        if self.state is None:
            guard = Guard(self.resolve, self.closed, self.open_names)
            fetcher = Fetcher(guard, self.limits, self.trust, self)
            self.state = FetcherState(limits=self.limits, fetcher=fetcher)
        app = make_app(self.state, lambda error: None)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://fetcher") as client:
            return await client.post("/fetch", json=body)

    async def refusal(self, url: object, status: int) -> str:
        """Return the one line of an error with this status."""
        response = await self.ask(url)
        assert response.status_code == status, response.text
        line = str(response.json()["error"]["message"])
        assert "\n" not in line
        return line


def redirects(places: Iterable[str]) -> list[bytes | Serve]:
    """Return one redirect for each place."""
    return [answer(status="302 Found", location=place) for place in places]

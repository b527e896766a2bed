"""Judge the health of a service: one rule for `hearth status`, the benchmarks and the smoke tests.

The Ansible module service_converge runs on the target without Hearth and carries its own copy;
tests/unit/plugins/test_health.py holds both to the same answers.
"""

import asyncio
import http.client
import io
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from hearth.catalogue.house import Service
from hearth.catalogue.schema import HealthRecord
from hearth.clients.endpoints import needs_authorities
from hearth.machine import probe

# A program that systemd has restarted this often is in a crash loop. `hearth up` waits for two more
# (decision 027).
RESTART_LIMIT = 3
# Time limit for a connection inside the machine: one lost packet is sent again after a second.
CONNECT_S = 1.4
# A healthy answer is short.
_MOST_BYTES = 2**20
_ADDRESS = re.compile(r"[\d.]+")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\r\n|$)")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HealthResult:
    """The result of one health check; `reason` is empty when the service is healthy.

    `late` is true if no complete answer came at all, `slow` if a right one came too late.
    """

    reason: str
    seconds: float
    late: bool = False
    slow: bool = False

    @property
    def healthy(self) -> bool:
        """Whether the answer is the one that the record demands."""
        return not self.reason


def fault(health: HealthRecord, status: int, text: str) -> str:
    """Return what is wrong with an answer, or the empty text."""
    if status != http.client.OK:
        return f"health returns HTTP {status}"
    return "" if health.contains in text else f"health returns no {health.contains!r}"


def check(service: Service) -> HealthResult:
    """Request the health of a service within its own deadline."""
    return asyncio.run(look(service.url, service.health))


async def look(url: str, health: HealthRecord, patience_s: float = 0) -> HealthResult:
    """Request the health of a server within its own deadline, beside other requests.

    With patience a server that is late is waited for, which tells a slow one from one that hangs.
    """
    start, late, slow = time.monotonic(), False, False
    wait_s, allowed = max(health.within_s, patience_s), f"{health.within_s:g} s"
    try:
        status, body = await get(url + health.path, wait_s)
        took_s = time.monotonic() - start
        reason = fault(health, status, body.decode(errors="replace"))
        if not reason and took_s > health.within_s:
            reason, slow = f"its health took {took_s:.1f} s; its record allows {allowed}", True
    except TimeoutError:
        late = True
        reason = f"no answer in {wait_s:g} s"
        if wait_s > health.within_s:
            reason += f"; its record allows {allowed}"
    except ConnectionRefusedError:
        reason = "no answer: its port is closed"
    except (OSError, http.client.HTTPException) as error:
        reason = f"no answer: {type(error).__name__}"
    return HealthResult(reason, time.monotonic() - start, late, slow)


async def get(url: str, within_s: float) -> tuple[int, bytes]:
    """Return the status and the body of one request, which costs an eighth of what httpx costs.

    Redirects are not followed.

    Raises:
        TimeoutError: the whole answer was not there within `within_s`.
        OSError: no connection.
        HTTPException: what was answered is not HTTP.
    """
    parts = urlsplit(url)
    head = _request(parts.netloc, url.partition(parts.netloc)[2])
    host, secure = parts.hostname or "", needs_authorities(url)
    port = parts.port or (443 if secure else 80)
    async with asyncio.timeout(within_s):
        if _ADDRESS.fullmatch(host) and not secure:
            data = await _answer(host, port, head)
        else:
            data = await _streamed_answer(host, port, head, secure)
    return _parsed(data)


async def _answer(address: str, port: int, request: bytes) -> bytes:
    """Return what a server of the house answers: a stream costs twice as much."""
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, (address, port))
        await loop.sock_sendall(connection, request)
        return await _received(partial(loop.sock_recv, connection))


async def _streamed_answer(host: str, port: int, request: bytes, secure: bool) -> bytes:
    """Return what a server outside the house answers, by its name or over TLS."""
    context = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write(request)
        return await _received(reader.read)
    finally:
        # Without waiting: a program that hangs would not take the end either.
        writer.transport.abort()


async def _received(receive: Callable[[int], Awaitable[bytes]]) -> bytes:
    """Return what arrives until the answer is whole, too long, or at its end."""
    data = b""
    while len(data) < _MOST_BYTES and not _complete(data):
        if not (piece := await receive(65536)):
            break
        data += piece
    return data


def _parsed(data: bytes) -> tuple[int, bytes]:
    """Return the status and the body; `http.client` reads only what is sent in chunks."""
    head, end, body = data.partition(b"\r\n\r\n")
    if end and (found := _LENGTH.search(head + b"\r\n")) and (first := _STATUS.match(head)):
        return int(first[1]), body[: int(found[1])]
    answer = http.client.HTTPResponse(_Received(data))  # type: ignore[arg-type]
    answer.begin()
    return answer.status, answer.read()


async def reach(
    connection: socket.socket, address: str, port: int, path: str, within_s: float
) -> str:
    """Connect within `CONNECT_S`, and with a path wait for the first byte of an answer.

    Returns an outcome as `hearth.machine.probe` names it: open, silent, hung, rejected, refused or
    unreachable.
    """
    loop, silence = asyncio.get_running_loop(), "silent"
    connection.setblocking(False)
    try:
        async with asyncio.timeout(within_s):
            # A slow program is no reason for a slow connection, which the kernel accepts.
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_connect(connection, (address, port))
            if not path:
                return "open"
            silence = "hung"
            await loop.sock_sendall(connection, _request(f"{address}:{port}", path))
            return "open" if await loop.sock_recv(connection, 65536) else "hung"
    except TimeoutError:
        return silence
    except OSError as error:
        # Once it was open, an error is the program's.
        known = probe.OUTCOMES.get(error.errno or 0, "unreachable")
        return silence if silence == "hung" else known


def _request(host: str, path: str) -> bytes:
    head = f"GET {path or '/'} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    return head.encode()


def _complete(data: bytes) -> bool:
    """Return whether a whole answer is there, although the server keeps the connection open."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    if found := _LENGTH.search(head + b"\r\n"):
        return len(body) >= int(found[1])
    return body.endswith(b"0\r\n\r\n") and b"chunked" in head.lower()


class _Received(io.BytesIO):
    """An answer that was received, in the form in which `http.client` reads one."""

    def makefile(self, *_: Any) -> io.BytesIO:
        """Return itself."""
        return self

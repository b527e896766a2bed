"""One page: its redirects, its body within limits, and what it is."""

import re
import ssl
import zlib
from dataclasses import dataclass, field
from email.message import Message

import httpcore

from hearth_fetcher.addresses import Guard
from hearth_fetcher.connecting import CheckedBackend
from hearth_fetcher.limits import Limits
from hearth_fetcher.urls import Target, follow, read_url
from hearth_serving.errors import ServiceError

USER_AGENT = "Hearth-Fetcher/1 (one page for a person's assistant)"
_HEADERS = (
    ("User-Agent", USER_AGENT),
    ("Accept", "text/html, application/pdf, text/*, application/json;q=0.9, */*;q=0.1"),
    ("Accept-Encoding", "gzip"),
    ("Connection", "close"),
)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Body:
    """A response's content after decompression; `cut` where it was longer than the limit."""

    url: str
    status: int
    media_type: str
    charset: str
    content: bytes
    cut: bool


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Sends GET requests to checked addresses, without cookies and without other state."""

    guard: Guard
    limits: Limits
    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    dial: httpcore.AsyncNetworkBackend = field(default_factory=httpcore.AnyIOBackend)

    async def fetch(self, url: str) -> Body:
        """Return what is behind a URL and its redirects; raises ServiceError."""
        target = read_url(url)
        backend = CheckedBackend(self.guard, self.limits, self.dial)
        for _ in range(self.limits.redirects + 1):
            # A connection serves one request, so each redirect is resolved and checked again.
            async with httpcore.AsyncConnectionPool(
                self.trust, max_connections=1, http2=False, network_backend=backend
            ) as pool:
                found = await self._request(pool, target)
            if isinstance(found, Body):
                return found
            target = found
        message = f"the page redirects more than {self.limits.redirects} times"
        raise ServiceError(message, status=502, code="too_many_redirects")

    async def _request(self, pool: httpcore.AsyncConnectionPool, target: Target) -> Body | Target:
        """Return the response to one request, or where it redirects to."""
        place = httpcore.URL(
            scheme=target.scheme.encode(), host=target.host.encode(), target=target.path.encode()
        )
        try:
            async with pool.stream("GET", place, headers=_HEADERS) as response:
                headers = {name.lower(): value for name, value in response.headers}
                if response.status in _REDIRECTS and b"location" in headers:
                    return _next(target, headers[b"location"])
                return await self._body(target, response, headers)
        except httpcore.RemoteProtocolError:
            raise _broken("sent no valid HTTP") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
            tls = isinstance(error, ssl.SSLError) or "SSL" in str(error) or "CERT" in str(error)
            why = "has no valid certificate for its name" if tls else "ended the connection"
            raise _broken(why) from None

    async def _body(
        self, target: Target, response: httpcore.Response, headers: dict[bytes, bytes]
    ) -> Body:
        """Read a body up to the limit, and decompress no more than that of it."""
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip", ""):
            raise _broken("sent an encoding that was not requested")
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in encoding else None
        content, raw_bytes, most = bytearray(), 0, self.limits.page_bytes
        try:
            async for chunk in response.aiter_stream():
                raw_bytes += len(chunk)
                room = most + 1 - len(content)
                content += inflate.decompress(chunk, room) if inflate else chunk
                if raw_bytes > most or len(content) > most:
                    break
        except zlib.error:
            raise _broken("sent data that cannot be decompressed") from None
        media_type, charset = _type(headers.get(b"content-type", b""), bytes(content[:64]))
        cut = raw_bytes > most or len(content) > most
        return Body(target.url, response.status, media_type, charset, bytes(content[:most]), cut)


def _next(target: Target, location: bytes) -> Target:
    try:
        return follow(target, location)
    except ServiceError as error:
        message = f"the page redirects to a place that is not fetched: {error}"
        raise ServiceError(message, status=403, code="redirect_not_allowed") from None


def _type(header: bytes, start: bytes) -> tuple[str, str]:
    """Return the media type, guessed where the server does not know it, and the charset."""
    message = Message()
    message["Content-Type"] = re.sub(r"[^\x20-\x7e]", "", header.decode("latin-1"))
    named = message.get_content_type() if header else ""
    if start.startswith(b"%PDF-") and named in ("", "application/octet-stream"):
        named = "application/pdf"
    elif not named:
        named = "text/html" if start.lstrip()[:1] == b"<" else "text/plain"
    charset = str(message.get_param("charset", "") or "")
    return named if _MEDIA_TYPE.fullmatch(named) else "application/octet-stream", charset[:40]


def _broken(why: str) -> ServiceError:
    return ServiceError(f"the server {why}", status=502, code="bad_answer")

"""Read the headers in which Caddy describes a request; none of them can do harm.

They are trusted only because the login listens on loopback (`__main__` refuses another address)
and because Caddy, which has no trusted proxies, replaces any that a client sent.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass

from starlette.requests import Request

from .sessions import COOKIE

_AUTHORITY = re.compile(r"(?P<host>[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)\.?(:[0-9]{1,5})?")
_METHOD = re.compile(r"[A-Z]{1,20}")


@dataclass(frozen=True, slots=True)
class EdgeRequest:
    """One request as Caddy describes it; a missing or invalid field is empty."""

    host: str
    authority: str
    client: str
    method: str
    uri: str
    key: str | None
    cookie: str
    accept: str
    origin: str
    fetch_site: str
    fetch_mode: str
    service: str = ""
    """The service that answers this path of a shared name; Caddy alone sets it."""

    @property
    def navigates(self) -> bool:
        """Return whether a browser requests a page; programs need a status instead."""
        return self.method == "GET" and "text/html" in self.accept

    @property
    def cross_site(self) -> bool:
        """Return whether another site's page sent this, other than by a link.

        SameSite=Lax does not cover this where the house's names are one site to a browser, as
        below a domain like `home.example.org`.
        """
        if self.fetch_site in ("same-origin", "none"):
            return False
        if self.fetch_site:
            return not (self.fetch_mode == "navigate" and self.method in ("GET", "HEAD"))
        return bool(self.origin) and not self.same_origin

    @property
    def same_origin(self) -> bool:
        """Return whether a page of this very host sent it, according to the browser."""
        return self.origin.lower() == f"https://{self.authority}"


def read_request(request: Request) -> EdgeRequest:
    """Read one request; never raises."""
    authority = _one(request, "x-forwarded-host").strip().lower()
    matched = _AUTHORITY.fullmatch(authority)
    method = _one(request, "x-forwarded-method")
    return EdgeRequest(
        host=matched["host"] if matched else "",
        authority=authority if matched else "",
        client=_client(request),
        method=method if _METHOD.fullmatch(method) else "",
        uri=_one(request, "x-forwarded-uri"),
        key=_key(request),
        cookie=request.cookies.get(COOKIE, ""),
        accept=",".join(request.headers.getlist("accept")).lower(),
        origin=_one(request, "origin"),
        fetch_site=_one(request, "sec-fetch-site"),
        fetch_mode=_one(request, "sec-fetch-mode"),
        service=request.query_params.get("service", ""),
    )


def is_own_address(client: str) -> bool:
    """Return whether this is an address of the machine itself; "-" is not."""
    if client == "-":
        return False
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Only the machine's own addresses can be bound; nothing is sent.
            probe.bind((client, 0))
        except OSError:
            return False
    return True


def _one(request: Request, name: str) -> str:
    # The service may read the other one of two headers, so neither is trusted.
    values = request.headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def _key(request: Request) -> str | None:
    """Return the bearer key, "" for an invalid one, None without one."""
    values = request.headers.getlist("authorization")
    if not values:
        return None
    scheme, _, key = values[0].strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    return key.strip() if len(values) == 1 else ""


def _client(request: Request) -> str:
    # Only the last hop is from Caddy; the earlier ones are from the client.
    hops = ",".join(request.headers.getlist("x-forwarded-for"))
    try:
        return str(ipaddress.ip_address(hops.rpartition(",")[2].strip()))
    except ValueError:
        return "-"

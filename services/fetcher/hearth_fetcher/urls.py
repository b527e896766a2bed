"""URLs as they are fetched: one reading of each, and nothing in it that two programs read apart."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from urllib.parse import quote, urljoin, urlsplit

import idna

from hearth_serving.errors import ServiceError

MAX_CHARS = 2048
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?=.{4,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9-]{1,63}")
# What inet_aton reads as a number: decimal, octal and hexadecimal.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


@dataclass(frozen=True, slots=True)
class Target:
    """What one request is sent for; the port follows from the scheme."""

    scheme: str
    host: str
    path: str

    @property
    def port(self) -> int:
        """The scheme's own port."""
        return _PORTS[self.scheme]

    @property
    def url(self) -> str:
        """The whole URL, without a fragment."""
        return f"{self.scheme}://{self.host}{self.path}"


def read_url(text: str) -> Target:
    """Return what a URL names; raises ServiceError unless it is a plain one of the web."""
    if len(text) > MAX_CHARS:
        raise _wrong(f"is longer than {MAX_CHARS} characters")
    if _UNSAFE.search(text):
        raise _wrong("has a space, a backslash or a control character in it")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise _wrong("cannot be read") from None
    if parts.scheme not in _PORTS:
        raise _wrong("must start with https:// or http://")
    if "@" in parts.netloc:
        raise _wrong("has a user name in it; leave it out")
    if port not in (None, _PORTS[parts.scheme]):
        raise _wrong("names a port; only 80 for http and 443 for https are fetched from")
    if "[" in parts.netloc or ":" in host:
        raise _wrong("has an IPv6 address; this house reaches IPv4 only")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~?")
    return Target(parts.scheme, _host(host), f"{path}?{query}" if query else path)


def follow(target: Target, location: bytes) -> Target:
    """Return where a redirect leads, checked like any other URL."""
    try:
        text = location.decode()
    except UnicodeDecodeError:
        text = location.decode("latin-1")
    # Servers send spaces, which browsers quote as well.
    return read_url(urljoin(target.url, text.strip().replace(" ", "%20")))


def _host(text: str) -> str:
    """Return a host as the resolver gets it: a canonical address, or a name with a dot."""
    host = text.removesuffix(".").lower()
    if not host.isascii():
        try:
            # It maps wide digits and other dots, so that they are judged as what they become.
            host = idna.encode(host, uts46=True).decode().lower()
        except idna.IDNAError:
            raise _wrong("has a host name that is not valid") from None
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise _wrong("has a number as its host; write an address as 192.0.2.1") from None
    if not _HOST.fullmatch(host):
        raise _wrong("has a host name that is not valid; write one such as example.org")
    return host


def _wrong(why: str) -> ServiceError:
    # The text itself may be a server's, in a redirect: it is not repeated.
    return ServiceError(f"the URL {why}", param="url", code="invalid_url")

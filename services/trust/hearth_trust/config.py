"""The page's configuration: its name, the house's address and certificate."""

import fcntl
import hashlib
import json
import re
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SITE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
# From linux/sockios.h; the IPv4 address of the interface starts at byte 20 of the result.
_SIOCGIFADDR = 0x8915


class TrustError(Exception):
    """One line for a person: why the page cannot be served."""


@dataclass(frozen=True, slots=True)
class Config:
    """`site` is the page's own name; `pages` are the names that people open afterwards.

    `address` is the one that devices were told to use as their DNS server.
    """

    site: str
    domain: str
    interface: str
    address: str
    root_pem: str
    pages: Sequence[str]

    @property
    def fingerprint(self) -> str:
        """The root's SHA-256 as devices show it: `AB:CD:…`."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.root_pem)).digest().hex(":").upper()


def load_config(path: Path) -> Config:
    """Read `path` and the certificate file that it names.

    Raises:
        TrustError: a file is missing or not valid.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        root = Path(raw["root"])
        config = Config(
            site=_text(raw, "site"),
            domain=_text(raw, "domain"),
            interface=_text(raw, "interface"),
            address=_text(raw, "address"),
            root_pem=root.read_text(encoding="ascii"),
            pages=tuple(str(name) for name in raw["pages"]),
        )
        ssl.PEM_cert_to_DER_cert(config.root_pem)
    except OSError as error:
        raise TrustError(f"{error.filename}: {error.strerror}: run `hearth up`") from None
    except (ValueError, KeyError, TypeError) as error:
        raise TrustError(f"{path}: {error!r}: run `hearth up`, which writes it") from None
    if not _SITE.fullmatch(config.site):
        raise TrustError(f"{path}: site: {config.site!r} is not a valid name: run `hearth up`")
    return config


def _text(raw: Any, key: str) -> str:
    value = raw[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} must be a string")
    return value


def address_of(interface: str) -> str | None:
    """Return the interface's current IPv4 address, which DHCP may change at any time."""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            response = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(response[20:24])

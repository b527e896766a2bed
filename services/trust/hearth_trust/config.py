"""What the page is about: the house's name for it, its address, its certificate."""

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
# From linux/sockios.h: the IPv4 address of an interface, 20 bytes into what comes back.
_SIOCGIFADDR = 0x8915


class TrustError(Exception):
    """One line for a person: why the page cannot be shown."""


@dataclass(frozen=True, slots=True)
class Config:
    """`site` is the page's own name, `pages` are names that a person opens afterwards."""

    site: str
    domain: str
    interface: str
    root_pem: str
    pages: Sequence[str]

    @property
    def fingerprint(self) -> str:
        """The root's SHA-256 as devices show it: `AB:CD:…`."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.root_pem)).digest().hex(":").upper()


def load_config(path: Path) -> Config:
    """Read `path`, and the certificate that it names.

    Raises:
        TrustError: a file is missing or no such thing.
    """
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        root = Path(said["root"])
        config = Config(
            site=_text(said, "site"),
            domain=_text(said, "domain"),
            interface=_text(said, "interface"),
            root_pem=root.read_text(encoding="ascii"),
            pages=tuple(str(name) for name in said["pages"]),
        )
        ssl.PEM_cert_to_DER_cert(config.root_pem)
    except OSError as error:
        raise TrustError(f"{error.filename}: {error.strerror}: run `hearth up`") from None
    except (ValueError, KeyError, TypeError) as error:
        raise TrustError(f"{path}: {error!r}: run `hearth up`, which writes it") from None
    if not _SITE.fullmatch(config.site):
        raise TrustError(f"{path}: site: {config.site!r} is no name: run `hearth up`")
    return config


def _text(said: Any, key: str) -> str:
    value = said[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} must be a text")
    return value


def address_of(interface: str) -> str | None:
    """Return the IPv4 address that the interface has now: a router may give another one."""
    asked = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        try:
            said = fcntl.ioctl(wire.fileno(), _SIOCGIFADDR, asked)
        except OSError:
            return None
    return socket.inet_ntoa(said[20:24])

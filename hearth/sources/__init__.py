"""Every download: fetched, verified by digest, and installed whole or not at all.

Installing needs only Python's own library, `zstd` and `uv`; fetching needs httpx.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from hearth.catalogue.house import Source
from hearth.paths import DOWNLOADS, PROGRAMS

__all__ = ["Fetched", "Limits", "Source", "SourceError", "Store", "address_of"]


class SourceError(Exception):
    """One line for a person: which source or program, what is wrong, what to do."""


# Called with the source's name, the bytes received, and the total if the server sent it.
Progress = Callable[[str, int, int | None], None]


def file_name(source: Source) -> str:
    """Return the name of the fetched file: never the same for two versions."""
    last = urlsplit(source.url).path.rpartition("/")[2] or "download"
    return f"{source.name}-{source.version}-{last}".replace("/", "_")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A verified file and its sha256."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Store:
    """Where sources come from and go to: mirrors, downloads, programs.

    Digests that are trusted on first use are recorded in `inventory`.
    """

    inventory: Path
    mirrors: Mapping[str, str]
    downloads: Path = DOWNLOADS
    programs: Path = PROGRAMS


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a download may take; every wait is bounded."""

    timeout_s: float = 6 * 3600
    stall_s: float = 60  # without a byte: try again
    attempts: int = 5  # in a row without a byte
    backoff_s: float = 1  # doubled each time
    backoff_max_s: float = 30
    spare_bytes: int = 256 << 20  # of the disk, left free for other programs
    max_bytes: int = 1 << 40  # of a file whose size is not known


def address_of(url: str, mirrors: Mapping[str, str]) -> str:
    """Replace the longest prefix of `url` that has a mirror; a mirror may be a local folder."""
    fitting = [prefix for prefix in mirrors if url.startswith(prefix)]
    if not fitting:
        return url
    longest = max(fitting, key=len)
    return mirrors[longest] + url[len(longest) :]


def shown(address: str) -> str:
    """Return an address without the password or token that a mirror's may carry."""
    parts = urlsplit(address)
    if not parts.scheme:
        return address
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

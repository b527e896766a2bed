"""What one page may cost, and how many are fetched at once."""

from dataclasses import dataclass

from hearth_serving.limits import Limits as ServerLimits

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(ServerLimits):
    """Bounds of the server and of each page, with their units."""

    body_bytes: int = 16 * 1024
    connections: int = 64
    page_s: float = 20
    """From the request to the text, with the wait for a free place and all redirects."""
    page_bytes: int = 5 * MIB
    """The largest body, as it is transferred and after decompression; the rest is not read."""
    received_bytes: int = 6 * MIB
    """All that the servers of one page may send, with headers and redirects."""
    redirects: int = 5
    connect_s: float = 5
    """How long one address may take to accept a connection."""
    addresses: int = 3
    """How many addresses of one name are tried."""
    at_once: int = 8
    waiting: int = 16
    """How many requests may wait for a place; more get 503."""
    readers: int = 2
    """How many pages are turned into text at once, each in a process of its own."""

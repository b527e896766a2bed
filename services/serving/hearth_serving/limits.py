"""How much one request may ask for and how long it may take: nothing here is without a bound."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of requests and connections, each with its unit; a service adds its own."""

    body_bytes: int = 1024 * 1024
    headers_s: float = 30
    """How long a client may take to send the first line and the headers of a request."""
    body_s: float = 30
    """How long a client may take to send the whole body."""
    min_bytes_per_s: float = math.inf
    """After `body_s`, how fast the body must have arrived on average."""
    write_s: float = 60
    """How long a write may stand still before the reader is taken for gone."""
    timeout_s: float = 3600
    """How long one request may take altogether; a player reads no faster than it plays."""
    connections: int = 256
    """How many sockets are served at once; more hear 503, and beyond twice as many nothing."""
    live: int = 24
    """How many WebSockets are open at once."""
    message_bytes: int = 64 * 1024
    """The longest message of a WebSocket."""
    idle_s: float = 120
    """How long a WebSocket may be silent while nothing is done for it."""
    stop_s: int = 3
    """How long running requests may go on after SIGTERM."""

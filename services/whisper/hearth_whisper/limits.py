"""The limits of requests, streams and satellites, each with its unit."""

from dataclasses import dataclass

from hearth_serving import limits

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(limits.Limits):
    """Limits of HTTP requests and WebSockets, beside those of every server."""

    body_bytes: int = 512 * _MIB
    """The largest upload."""
    min_bytes_per_s: float = 8 * 1024
    audio_s: float = 4 * 3600
    """The longest audio of one file."""
    timeout_s: float = 4 * 3600
    """The longest duration of one request, the wait for others included."""
    scratch_bytes: int = 2048 * _MIB
    """The size of all uploads together."""
    live: int = 8
    """Live streams at once."""
    message_bytes: int = _MIB


@dataclass(frozen=True, slots=True)
class SatelliteLimits:
    """Limits of one satellite's connection, and of their number."""

    clients: int = 16
    """Satellites at once; further ones get an error, and beyond twice as many nothing."""
    line_bytes: int = 16 * 1024
    """The longest first line of an event."""
    data_bytes: int = 64 * 1024
    """The longest data of an event."""
    chunk_bytes: int = 1024 * 1024
    """The longest payload of an event; satellites send some kilobytes."""
    audio_s: float = 300
    """The longest recording."""
    turn_s: float = 600
    """The time to send a recording; satellites send at the pace of speech."""
    idle_s: float = 60
    """The time without an event, and the time for one event to arrive."""
    write_s: float = 30
    """The time in which a response must be read."""
    timeout_s: float = 600
    """The time from the end of a recording to its text, the wait for others included."""

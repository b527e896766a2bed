"""The limits of this server, besides those of every model server."""

from dataclasses import dataclass

from hearth_serving import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(limits.Limits):
    """Limits of requests and connections, each with its unit."""

    text_characters: int = 20_000
    """The longest text of one request, and of one WebSocket between two flushes."""
    job_characters: int = 200_000
    """The longest text that becomes a file: about four hours of sound."""

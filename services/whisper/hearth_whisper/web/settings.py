"""How much one upload and one talker may ask for, besides what holds for every server."""

from dataclasses import dataclass

from hearth_serving import limits

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(limits.Limits):
    """Bounds of requests and connections, each with its unit."""

    body_bytes: int = 512 * _MIB
    """The largest upload."""
    min_bytes_per_s: float = 8 * 1024
    audio_s: float = 4 * 3600
    """The longest sound of one file."""
    timeout_s: float = 4 * 3600
    """How long one file may take altogether, its wait for others included."""
    scratch_bytes: int = 2048 * _MIB
    """What all uploads together may hold at once."""
    live: int = 8
    """How many talkers are listened to at once."""
    message_bytes: int = _MIB

"""How much one satellite may ask for and how long it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SatelliteLimits:
    """Bounds of one connection, each with its unit, and of how many there are."""

    clients: int = 16
    """How many are served at once; more hear an error, and beyond twice as many nothing."""
    line_bytes: int = 16 * 1024
    """The longest first line of an event."""
    data_bytes: int = 64 * 1024
    """The longest data of an event."""
    chunk_bytes: int = 1024 * 1024
    """The longest payload of an event; satellites send some kilobytes."""
    audio_s: float = 300
    """The longest recording."""
    turn_s: float = 600
    """How long a satellite may take to send one; they send as somebody speaks."""
    idle_s: float = 60
    """How long it may say nothing, and how long one event may take to arrive."""
    write_s: float = 30
    """How long it may leave an answer unread."""
    timeout_s: float = 600
    """How long after its stop the text may take, waiting for others included."""

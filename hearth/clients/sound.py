"""When speech that arrives in chunks is audible and where it stalls; by Python's library alone.

Sound is s16le, mono, 24 kHz unless a rate is given. The clock of all arrivals is the caller's,
usually seconds since the request was sent. How the bytes are cut into chunks changes nothing but
when they are there: a chunk may end in the middle of a sample.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

RATE = 24_000
BLOCK_S = 0.010
LOUD_DBFS = -45.0
# A player without data for less than this does not stutter audibly.
DRY_S = 0.020
_SAMPLE_BYTES = 2
_FULL_SCALE = 32_768


class Chunk(NamedTuple):
    """Sound that arrived at one moment."""

    at_s: float
    pcm: bytes


@dataclass(frozen=True, slots=True)
class FirstSound:
    """The first block above silence: when it arrived, and how deep in the sound it is."""

    at_s: float
    lead_s: float
    """Seconds of quieter sound before it."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A player ran out of sound at `position_s` of the sound, for `dry_s`."""

    position_s: float
    dry_s: float


def first_sound(chunks: Iterable[Chunk], rate: int = RATE) -> FirstSound | None:
    """Return when the first 10 ms block above -45 dBFS had arrived completely; None without any.

    Blocks are counted from the start of the sound. Silence and faint noise sent ahead of the
    speech do not count, so that filler cannot help.
    """
    size = round(rate * BLOCK_S) * _SAMPLE_BYTES
    rest, blocks, at_s = b"", 0, 0.0
    for chunk in chunks:
        rest += chunk.pcm
        at_s = chunk.at_s
        whole = len(rest) // size * size
        for start in range(0, whole, size):
            if _dbfs(rest[start : start + size]) > LOUD_DBFS:
                return FirstSound(at_s, blocks * BLOCK_S)
            blocks += 1
        rest = rest[whole:]
    # An incomplete block at the end is audible, too.
    if _dbfs(rest[: len(rest) // _SAMPLE_BYTES * _SAMPLE_BYTES]) > LOUD_DBFS:
        return FirstSound(at_s, blocks * BLOCK_S)
    return None


def stalls(chunks: Iterable[Chunk], rate: int = RATE) -> list[Stall]:
    """Return where a player that started at the first sample runs dry for more than 20 ms.

    Shorter gaps are forgiven only until they add up to 20 ms: a drip is a stutter too.
    """
    found: list[Stall] = []
    start_s = None
    size = 0
    for at_s, pcm in chunks:
        # A chunk may bring no further whole sample.
        played, size = size // _SAMPLE_BYTES, size + len(pcm)
        if size // _SAMPLE_BYTES == played:
            continue
        if start_s is None:
            start_s = at_s
        late_s = at_s - (start_s + played / rate)
        if late_s > DRY_S:
            found.append(Stall(played / rate, late_s))
            start_s += late_s
    return found


def duration(chunks: Iterable[Chunk], rate: int = RATE) -> float:
    """Return how long the sound lasts."""
    return sum(len(chunk.pcm) for chunk in chunks) // _SAMPLE_BYTES / rate


def _dbfs(block: bytes) -> float:
    """Return the level of a block against the loudest square wave; minus infinity for silence."""
    samples = memoryview(block).cast("h")
    power = sum(sample * sample for sample in samples) / max(1, len(samples))
    return 10 * math.log10(power / _FULL_SCALE**2) if power else -math.inf

"""Speech as a microphone hands it over: in real time, with the quiet room before and after it."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections.abc import AsyncIterator

from hearth.clients.recordings import BYTES, RATE

CHUNK_S = 0.02
"""What a browser's microphone hands over at a time, and how exactly anything is timed at least."""
_LOUDEST = 8
"""The loudest sample of the room: about -72 dBFS."""


def room(seconds: float) -> bytes:
    """Return a quiet room, the same each time."""
    draw = random.Random(7)  # noqa: S311 - noise
    return array(
        "h", (draw.randint(-_LOUDEST, _LOUDEST) for _ in range(round(seconds * RATE)))
    ).tobytes()


async def paced(sound: bytes, started: float) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the sound and then the room without an end, each chunk when its last sample was heard.

    With each comes how many bytes there were until then. `started` is on the clock of
    `time.perf_counter`; who is late is given the next chunk at once.
    """
    size, quiet = round(CHUNK_S * RATE) * BYTES, room(1.0)
    at = 0
    while True:
        # The sound ends with a chunk of its own, so that its last word is handed over at once.
        chunk = sound[at : at + size] if at < len(sound) else quiet[at % len(quiet) :][:size]
        at += len(chunk)
        await asyncio.sleep(started + at / BYTES / RATE - time.perf_counter())
        yield at, chunk

"""One request for speech: what came, when it came, and what a listener heard of it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from hearth.bench.tts.heard.decode import decode
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.sound import Chunk, duration, first_sound, stalls
from hearth.clients.tts import MODEL, PATH, SpeechRequest

Clock = Callable[[], float]
# No server speaks slower than this: 24 kHz of 16 bits, and four characters a second.
_BYTES_PER_CHARACTER = 12_000
_BYTES = 2_000_000
_SECONDS_PER_CHARACTER = 0.1


def body_of(endpoint: Endpoint, ask: SpeechRequest) -> dict[str, Any]:
    """Return the request with this server's own names of its model and voice."""
    return replace(ask, voice=endpoint.voice or ask.voice).body(endpoint.model or MODEL)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured answer; all times in seconds from the request."""

    characters: int
    error: str = ""
    first_byte_s: float | None = None
    ttfa_s: float | None = None
    """When the first block above -45 dBFS could be decoded."""
    last_byte_s: float = 0.0
    gap_s: float = 0.0
    """The longest wait between two chunks."""
    chunks: int = 0
    lead_s: float = 0.0
    """Silence in the sound before its first loud block."""
    stalls: int = 0
    dry_s: float = 0.0
    audio_s: float = 0.0
    size_bytes: int = 0
    sha256: str = ""

    @property
    def early(self) -> float | None:
        """The part of the answer's time that is left when its first byte comes; 0 is a burst."""
        if self.first_byte_s is None or not self.last_byte_s:
            return None
        return (self.last_byte_s - self.first_byte_s) / self.last_byte_s

    @property
    def rtf(self) -> float | None:
        """Seconds of work for a second of sound."""
        return self.last_byte_s / self.audio_s if self.audio_s else None

    @property
    def characters_per_s(self) -> float | None:
        """Characters spoken in a second of work."""
        return self.characters / self.last_byte_s if self.last_byte_s else None


@dataclass(slots=True)
class Arrived:
    """The bytes of one answer with the times at which they came."""

    ask: SpeechRequest
    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0
    last_s: float = 0.0
    error: str = ""


async def fetch(
    client: httpx.AsyncClient,
    server: Endpoint,
    ask: SpeechRequest,
    clock: Clock = time.perf_counter,
) -> Arrived:
    """Take one answer within its total deadline; a failure is in `error`, never raised."""
    arrived = Arrived(ask)
    limit_s = server.call_s + _SECONDS_PER_CHARACTER * len(ask.text)
    start = clock()
    try:
        # httpx bounds each read; an answer that drips would outlive any of its timeouts.
        async with asyncio.timeout(limit_s):
            await _receive(client, body_of(server, ask), arrived, lambda: clock() - start)
    except TimeoutError:
        arrived.error = f"no whole answer within {limit_s:g} s"
    except (httpx.HTTPError, OSError) as error:
        arrived.error = f"{type(error).__name__}: {error}"
    arrived.last_s = clock() - start
    return arrived


async def _receive(
    client: httpx.AsyncClient, body: Mapping[str, Any], arrived: Arrived, since: Clock
) -> None:
    most = _BYTES + _BYTES_PER_CHARACTER * len(body["input"])
    async with client.stream("POST", PATH, json=body) as response:
        if not response.is_success:
            said = (await response.aread())[:4000].decode("utf-8", "replace")
            arrived.error = f"HTTP {response.status_code}: {' '.join(said.split())[:200]}"
            return
        async for data in response.aiter_raw():
            arrived.chunks.append(Chunk(since(), data))
            arrived.size += len(data)
            if arrived.size > most:
                arrived.error = f"more than {most} bytes for {len(body['input'])} characters"
                return


def listen(arrived: Arrived) -> Sample:
    """Return what a listener heard of an answer.

    This decodes, which takes time: whoever receives several answers at once does it afterwards.
    """
    chunks, last_s, error = arrived.chunks, arrived.last_s, arrived.error
    characters = len(arrived.ask.text)
    if error:
        return Sample(characters, error, last_byte_s=last_s, chunks=len(chunks))
    try:
        sound = decode(arrived.ask.format, chunks)
    except ClientError as wrong:
        return Sample(characters, str(wrong), last_byte_s=last_s, chunks=len(chunks))
    heard = first_sound(sound.chunks, sound.rate)
    dry = stalls(sound.chunks, sound.rate)
    if heard is None:
        error = "silence: no 10 ms of it are louder than -45 dBFS"
    return Sample(
        characters,
        error,
        first_byte_s=chunks[0].at_s if chunks else None,
        ttfa_s=heard.at_s if heard else None,
        last_byte_s=chunks[-1].at_s if chunks else last_s,
        gap_s=max((b.at_s - a.at_s for a, b in itertools.pairwise(chunks)), default=0.0),
        chunks=len(chunks),
        lead_s=heard.lead_s if heard else 0.0,
        stalls=len(dry),
        dry_s=sum(stall.dry_s for stall in dry),
        audio_s=duration(sound.chunks, sound.rate),
        size_bytes=arrived.size,
        sha256=hashlib.sha256(b"".join(chunk.pcm for chunk in chunks)).hexdigest(),
    )

"""One request for speech: what answer when, and when it was audible."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from hearth.bench.tts.decode import decode_sound
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.sound import Chunk, duration, first_sound, stalls
from hearth.clients.tts import MODEL, PATH, VOICE, SpeechRequest, held_ms

# The slowest speech: 24 kHz of 16 bits, and four characters a second.
_BYTES_PER_CHARACTER = 12_000
_BYTES = 2_000_000
_SECONDS_PER_CHARACTER = 0.1
LONGER = ("paragraph", "long")


def body_of(endpoint: Endpoint, request: SpeechRequest) -> dict[str, Any]:
    """Return the request with this server's names of its model and voice."""
    return replace(request, voice=endpoint.voice or request.voice).body(endpoint.model or MODEL)


@dataclass(frozen=True, slots=True)
class TtsCase:
    """One kind of request: what is spoken, in which form, and by how many clients at once.

    `what` is phrase, caddy, paragraph, long or sample; `repeated` means that the server has just
    spoken it.
    """

    what: str
    format: str = "pcm"
    voice: str = VOICE
    streamed: bool = True
    clients: int = 1
    repeated: bool = False

    @property
    def watched(self) -> bool:
        """Whether health is sampled meanwhile; beside a single phrase it would be part of it."""
        return self.clients > 1 or self.what in LONGER


FIELDS = (
    *("characters", "first_byte_ms", "ttfa_ms", "last_byte_ms", "gap_ms", "early", "chunks"),
    *("lead_ms", "stalls", "dry_ms", "audio_s", "rtf", "characters_per_s", "held_ms"),
)
TOTALS = ("stalls", "dry_ms")


@dataclass(frozen=True, slots=True)
class TtsSample:
    """One measured answer; all times from the request.

    `ttfa_ms` is when the first 10 ms block above -45 dBFS could be decoded, `held_ms` how much of
    that the server held it back so that nothing stalls, `gap_ms` the longest wait between two
    chunks, `lead_ms` the silence in the sound before that block, `early` the part of the time to
    the last byte that was left at the first one (a burst leaves none), `stalls` how often a player
    ran dry for more than 20 ms, `dry_ms` for how long, `rtf` the seconds of work per second of
    sound.
    """

    characters: int
    error: str = ""
    first_byte_ms: float | None = None
    ttfa_ms: float | None = None
    last_byte_ms: float = 0.0
    gap_ms: float = 0.0
    chunks: int = 0
    lead_ms: float = 0.0
    stalls: int = 0
    dry_ms: float = 0.0
    audio_s: float = 0.0
    held_ms: float = 0.0

    @property
    def ready_ms(self) -> float | None:
        """When the first sound could have been played, had it not been held back."""
        return None if self.ttfa_ms is None else self.ttfa_ms - self.held_ms

    @property
    def early(self) -> float | None:
        """The part of the answer's time that is left at its first byte; 0 is a burst."""
        if self.first_byte_ms is None or not self.last_byte_ms:
            return None
        return (self.last_byte_ms - self.first_byte_ms) / self.last_byte_ms

    @property
    def rtf(self) -> float | None:
        """Seconds of work per second of sound."""
        return self.last_byte_ms / 1000 / self.audio_s if self.audio_s else None

    @property
    def characters_per_s(self) -> float | None:
        """Characters spoken in a second of work."""
        return self.characters / self.last_byte_ms * 1000 if self.last_byte_ms else None


@dataclass(slots=True)
class SpeechAnswer:
    """The bytes of one answer with the times of their arrival."""

    request: SpeechRequest
    chunks: list[Chunk] = field(default_factory=list)
    last_s: float = 0.0
    error: str = ""
    held_ms: float = 0.0


async def fetch(
    client: httpx.AsyncClient, endpoint: Endpoint, request: SpeechRequest
) -> SpeechAnswer:
    """Receive one answer within its total deadline; a failure is in `error`, never raised."""
    answer, size, characters = SpeechAnswer(request), 0, len(request.text)
    limit_s = endpoint.call_s + _SECONDS_PER_CHARACTER * characters
    most = _BYTES + _BYTES_PER_CHARACTER * characters
    body, start = body_of(endpoint, request), time.perf_counter()
    try:
        # httpx bounds each read; an answer that is slow would outlive any of its timeouts.
        async with asyncio.timeout(limit_s), client.stream("POST", PATH, json=body) as response:
            if not response.is_success:
                text = (await response.aread())[:4000].decode("utf-8", "replace")
                answer.error = f"HTTP {response.status_code}: {one_line(text)}"
            else:
                answer.held_ms = held_ms(response)
                async for data in response.aiter_raw():
                    answer.chunks.append(Chunk(time.perf_counter() - start, data))
                    size += len(data)
                    if size > most:
                        answer.error = f"more than {most} bytes for {characters} characters"
                        break
    except TimeoutError:
        answer.error = f"no complete answer within {limit_s:g} s"
    except (httpx.HTTPError, OSError) as error:
        answer.error = f"{type(error).__name__}: {error}"
    answer.last_s = time.perf_counter() - start
    return answer


def analyse(answer: SpeechAnswer) -> TtsSample:
    """Return when and how well an answer was audible.

    Decoding takes time: of several answers at once, analyse them afterwards.
    """
    chunks, characters = answer.chunks, len(answer.request.text)
    try:
        if answer.error:
            raise ClientError(answer.error)
        sound = decode_sound(answer.request.format, chunks)
    except ClientError as error:
        last_ms = answer.last_s * 1000
        return TtsSample(characters, str(error), last_byte_ms=last_ms, chunks=len(chunks))
    first = first_sound(sound.chunks, sound.rate)
    gaps = stalls(sound.chunks, sound.rate)
    waits = (b.at_s - a.at_s for a, b in itertools.pairwise(chunks))
    return TtsSample(
        characters,
        "" if first else "silence: no 10 ms of it are louder than -45 dBFS",
        first_byte_ms=chunks[0].at_s * 1000 if chunks else None,
        ttfa_ms=first.at_s * 1000 if first else None,
        last_byte_ms=(chunks[-1].at_s if chunks else answer.last_s) * 1000,
        gap_ms=max(waits, default=0.0) * 1000,
        chunks=len(chunks),
        lead_ms=first.lead_s * 1000 if first else 0.0,
        stalls=len(gaps),
        dry_ms=sum(stall.dry_s for stall in gaps) * 1000,
        audio_s=duration(sound.chunks, sound.rate),
        held_ms=answer.held_ms,
    )


async def first_piece(
    client: httpx.AsyncClient, endpoint: Endpoint, request: SpeechRequest
) -> str | None:
    """Return the words of the first piece that is spoken; None where the server does not report it.

    The SSE form has the words of each piece. The connection is closed after the first.
    """
    body = body_of(endpoint, request) | {"stream_format": "sse", "stream": True, "early": True}
    try:
        async with (
            asyncio.timeout(endpoint.call_s),
            client.stream("POST", PATH, json=body) as response,
        ):
            kind = response.headers.get("content-type", "")
            if not response.is_success or not kind.startswith("text/event-stream"):
                return None
            async for line in response.aiter_lines():
                event = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                if event.get("type") == "speech.audio.delta":
                    text = event.get("text")
                    return text if isinstance(text, str) and text.strip() else None
    except (TimeoutError, httpx.HTTPError, OSError, ValueError, AttributeError):
        # Also an event that is not a JSON object, as `[DONE]` at the end.
        return None
    return None

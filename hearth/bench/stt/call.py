"""One file for transcription: how long its text took."""

from __future__ import annotations

import asyncio
import io
import time
import wave
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import BYTES, RATE

PATH = "/v1/audio/transcriptions"
Clock = Callable[[], float]
# No server that could be used takes longer for a second of speech.
_SLOWEST_RTF = 10.0


@dataclass(frozen=True, slots=True)
class Written:
    """One file's text; `error` is empty when it came."""

    audio_s: float
    error: str = ""
    whole_s: float = 0.0
    text: str = ""

    @property
    def rtf(self) -> float:
        """Seconds of work for a second of sound."""
        return self.whole_s / self.audio_s


async def transcribe(
    client: httpx.AsyncClient, server: Endpoint, pcm: bytes, clock: Clock = time.perf_counter
) -> Written:
    """Send 16-bit mono at 16 kHz as a WAV file and take its text; a failure is in `error`."""
    audio_s = len(pcm) / BYTES / RATE
    limit_s = server.call_s + _SLOWEST_RTF * audio_s
    asked = {"model": server.model, "language": "en", "response_format": "json"}
    file = {"file": ("speech.wav", wav(pcm), "audio/wav")}
    start = clock()
    try:
        # httpx bounds each read; an answer that drips would outlive any of its timeouts.
        async with asyncio.timeout(limit_s):
            response = await client.post(PATH, data=asked, files=file)
    except TimeoutError:
        return Written(audio_s, f"no whole answer within {limit_s:g} s")
    except (httpx.HTTPError, OSError) as error:
        return Written(audio_s, f"{type(error).__name__}: {error}")
    return _read(response, audio_s, clock() - start)


def _read(response: httpx.Response, audio_s: float, whole_s: float) -> Written:
    if not response.is_success:
        said = " ".join(response.text.split())[:200]
        return Written(audio_s, f"HTTP {response.status_code}: {said}", whole_s)
    try:
        text = response.json()["text"]
    except (ValueError, KeyError, TypeError):
        return Written(audio_s, "an answer without a text", whole_s)
    return Written(audio_s, "", whole_s, str(text))


def wav(pcm: bytes) -> bytes:
    """Return 16-bit mono at 16 kHz as a WAV file."""
    into = io.BytesIO()
    with wave.open(into, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(BYTES)
        file.setframerate(RATE)
        file.writeframes(pcm)
    return into.getvalue()
